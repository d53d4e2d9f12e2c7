//! The mock group: followers hold a connection to their leader, so that a death is noticed.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use lockstep_runtime::launch::RankPlan;

use crate::rank::Input;

/// Connects the ranks of a group; each learns by [`Input::PeerGone`] when one that it is connected to dies.
pub(crate) fn form(plan: &RankPlan, inputs: &Sender<Input>) -> std::io::Result<()> {
    let socket = plan.run_directory.join(format!("{}.sock", plan.role));
    if plan.rank > 0 {
        let mut leader = connect(&socket)?;
        leader.write_all(&[u8::try_from(plan.rank).unwrap()])?;
        watch(leader, 0, inputs);
        return Ok(());
    }
    let listener = UnixListener::bind(socket)?;
    for _ in 1..plan.size {
        let (mut follower, _) = listener.accept()?;
        let mut rank = [0];
        follower.read_exact(&mut rank)?;
        watch(follower, rank[0].into(), inputs);
    }
    Ok(())
}

fn connect(socket: &PathBuf) -> std::io::Result<UnixStream> {
    for _ in 0..1000 {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        thread::sleep(Duration::from_millis(5));
    }
    UnixStream::connect(socket)
}

fn watch(mut peer: UnixStream, rank: u32, inputs: &Sender<Input>) {
    let inputs = inputs.clone();
    thread::spawn(move || {
        let _ = peer.read(&mut [0]);
        let _ = inputs.send(Input::PeerGone(rank));
    });
}
