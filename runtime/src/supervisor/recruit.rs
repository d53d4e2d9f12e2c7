//! The connection of a rank that a launcher started: it says which rank it is, waits in the anteroom, and is then like any other.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{interval, timeout};

use super::anteroom::{Call, Recruit};
use super::event::Event;
use super::link::{HELLO_DEADLINE, Inward, LinkEnd, LinkReport, read_all, write, write_all};
use crate::frontend::Desk;
use crate::group::Stream;
use crate::wire::{Answer, Assignment, Enlistment, RankName, RankToFront, Seat};

/// How often a rank that waits is told so.
const WAIT_WORD: Duration = Duration::from_secs(1);

/// A seat that was taken, and what cuts it off.
struct Taken {
    seat: Seat,
    assignment: Assignment,
    cut: Arc<Notify>,
    pid: u32,
}

/// Serves one connection to its end.
pub(crate) async fn serve(desk: Arc<Desk>, stream: TcpStream, events: mpsc::Sender<Event>) -> LinkReport {
    let (host, stream) = match prepare(stream) {
        Ok(prepared) => prepared,
        Err(error) => return LinkReport { seat: None, end: LinkEnd::Stranger(error.to_string()) },
    };
    let (reader, mut writer) = stream.into_split();
    let mut inward = Inward::new(reader);
    let taken = match wait(host, &mut inward, &mut writer, &events).await {
        Ok(taken) => taken,
        Err(report) => return report,
    };
    let (seat, cut) = (taken.seat, Arc::clone(&taken.cut));
    let end = tokio::select! {
        end = work(&desk, taken, inward, writer) => end,
        () = cut.notified() => LinkEnd::Cut(seat.name),
    };
    LinkReport { seat: Some(seat), end }
}

/// Sets what makes the connection prompt and has it notice an end that is unreachable.
fn prepare(stream: TcpStream) -> std::io::Result<(IpAddr, TcpStream)> {
    let host = stream.peer_addr()?.ip().to_canonical();
    let stream = stream.into_std()?;
    stream.prepare()?;
    Ok((host, TcpStream::from_std(stream)?))
}

/// Takes a connection to its seat.
async fn wait<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    host: IpAddr,
    inward: &mut Inward<R>,
    writer: &mut W,
    events: &mpsc::Sender<Event>,
) -> Result<Taken, LinkReport> {
    let unseated = |end| LinkReport { seat: None, end };
    let enlistment = hear(inward).await.map_err(unseated)?;
    let (name, pid) = (RankName { role: enlistment.role, rank: enlistment.rank }, enlistment.pid);
    inward.rename(name);
    let (call, mut called) = oneshot::channel();
    // The queue is gone only together with this task.
    events.send(Event::Enlisted(Recruit { enlistment, host, call })).await.ok();
    let ended = match called_or_ended(name, inward, writer, &mut called).await {
        Ok(call) => return answer(name, call, pid, writer).await,
        Err(end) => end,
    };
    // The call may have been made while the connection ended.
    called.close();
    match called.try_recv() {
        Ok(Call::Serve { seat, .. }) => Err(LinkReport { seat: Some(seat), end: ended }),
        Ok(Call::Leave | Call::Refuse { .. }) | Err(_) => Err(unseated(LinkEnd::Deserted(ended.to_string()))),
    }
}

async fn hear<R: AsyncRead + Unpin>(inward: &mut Inward<R>) -> Result<Enlistment, LinkEnd> {
    let heard = timeout(HELLO_DEADLINE, inward.next()).await;
    let heard = heard.map_err(|_| LinkEnd::Stranger("it did not say in time which rank it is".into()))?;
    heard.map_err(|error| LinkEnd::Stranger(error.to_string()))
}

async fn called_or_ended<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    name: RankName,
    inward: &mut Inward<R>,
    writer: &mut W,
    called: &mut oneshot::Receiver<Call>,
) -> Result<Call, LinkEnd> {
    let mut words = interval(WAIT_WORD);
    loop {
        tokio::select! {
            call = &mut *called => return call.map_err(|_| LinkEnd::Cut(name)),
            word = inward.next::<RankToFront>() => {
                let early = || LinkEnd::Deserted(format!("{name} spoke before it was called"));
                return Err(word.map_or_else(LinkEnd::Wire, |_| early()));
            }
            _ = words.tick() => write(writer, &name.to_string(), &Answer::Wait).await?,
        }
    }
}

/// Tells a rank that it does not serve, or takes its seat.
async fn answer<W: AsyncWrite + Unpin>(
    name: RankName,
    call: Call,
    pid: u32,
    writer: &mut W,
) -> Result<Taken, LinkReport> {
    let answer = match call {
        Call::Serve { seat, assignment, cut } => return Ok(Taken { seat, assignment, cut, pid }),
        Call::Leave => Answer::Leave,
        Call::Refuse { why, for_good } => Answer::Refuse { why, for_good },
    };
    let told = write(writer, &name.to_string(), &answer).await;
    let end = told.map_or_else(LinkEnd::Wire, |()| LinkEnd::SentAway);
    Err(LinkReport { seat: None, end })
}

/// Has a rank serve until either end is done.
async fn work<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    desk: &Desk,
    taken: Taken,
    inward: Inward<R>,
    mut writer: W,
) -> LinkEnd {
    let Taken { seat, assignment, pid, .. } = taken;
    let name = seat.name;
    let Some(outbox) = desk.join(seat, pid) else {
        return LinkEnd::Stranger(format!("{name} (pid {pid}) is not in epoch {}", seat.epoch.0));
    };
    if let Err(error) = write(&mut writer, &name.to_string(), &Answer::Serve(assignment)).await {
        return error.into();
    }
    tokio::select! {
        end = read_all(desk, seat, inward) => end,
        end = write_all(name, writer, outbox) => end,
    }
}
