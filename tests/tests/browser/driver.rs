//! A headless Chromium over WebDriver: JSON over HTTP, one request a connection.

use std::io::{BufRead, BufReader, Lines, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_tests::http::send;
use serde_json::{Value, json};

/// How long anything may take here, on a machine that is busy with something else.
const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// The field that holds an element's id, by the standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const ADVICE: &str = "install a browser with its driver (Debian: apt-get install chromium chromium-driver)";

/// A browser with one window. It is closed when dropped.
pub(crate) struct Browser {
    driver: Child,
    /// Held open, so that the driver can go on writing.
    _output: Lines<BufReader<ChildStdout>>,
    address: String,
    session: String,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver =
            command.spawn().unwrap_or_else(|error| panic!("cannot start chromedriver: {error}; {ADVICE}"));
        let mut output = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = output.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        let address = format!("127.0.0.1:{}", port.unwrap_or_else(|| panic!("chromedriver ended; {ADVICE}")));
        let mut browser = Self { driver, _output: output, address, session: String::new() };
        let session = browser.ask("POST", "/session", &capabilities());
        let session = session.unwrap_or_else(|error| panic!("no browser: {error}; {ADVICE}"));
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    pub(crate) fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url })).unwrap();
    }

    pub(crate) fn back(&self) {
        self.command("POST", "/back", &json!({})).unwrap();
    }

    /// What a script returns; it may be a promise.
    pub(crate) fn run(&self, script: &str, arguments: Value) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": arguments })).unwrap()
    }

    /// The text of what a selector finds first; empty if it finds nothing.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        self.run(script, json!([selector])).as_str().unwrap().to_owned()
    }

    /// How many elements a selector finds.
    pub(crate) fn count(&self, selector: &str) -> u64 {
        self.run("return document.querySelectorAll(arguments[0]).length", json!([selector])).as_u64().unwrap()
    }

    /// Clicks what an XPath finds first, as a person would; again, if the page is drawn anew meanwhile.
    pub(crate) fn click(&self, xpath: &str) {
        wait_for(&format!("a click on {xpath}"), || {
            let found = self.command("POST", "/element", &json!({ "using": "xpath", "value": xpath }))?;
            let id = found[ELEMENT].as_str().unwrap_or_default();
            self.command("POST", &format!("/element/{id}/click"), &json!({})).map(|_| ())
        });
    }

    /// Presses a key, by its code point in the standard if it is no letter.
    pub(crate) fn press(&self, key: char) {
        let pressed = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": pressed }] });
        self.command("POST", "/actions", &actions).unwrap();
    }

    /// Waits until a selector finds an element with these words.
    pub(crate) fn wait_for(&self, selector: &str, words: &str) {
        wait_for(&format!("{selector} with {words:?}"), || {
            let text = self.text(selector);
            if text.contains(words) { Ok(()) } else { Err(format!("it is {text:?}")) }
        });
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = body.to_string();
        let (host, length) = (&self.address, body.len());
        let stream = send(
            host,
            &format!(
                "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n{body}"
            ),
        );
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (status, value) = answer(stream);
        if status == 200 { Ok(value) } else { Err(value["message"].to_string()) }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _closed = self.command("DELETE", "", &json!({}));
        }
        let _ended = self.driver.kill();
        let _ended = self.driver.wait();
    }
}

fn capabilities() -> Value {
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1500,1000",
    ];
    json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": arguments } } } })
}

/// Status and value of an answer; the driver leaves the connection open behind it.
fn answer(stream: TcpStream) -> (u16, Value) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    while reader.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
        let lower = line.trim().to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().unwrap();
        }
        if let Some(rest) = lower.strip_prefix("content-length:") {
            length = rest.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    (status, answer["value"].clone())
}

/// Tries until it succeeds.
fn wait_for(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    while let Err(error) = attempt() {
        assert!(start.elapsed() < DEADLINE, "in vain: {what}: {error}");
        thread::sleep(PAUSE);
    }
}
