//! The ways in which the program of the tests misbehaves.

use crate::{print, print_bytes};
use serde_json::{Value, json};
use std::process::{Command, Stdio, exit};

skill_core::named_enum! {
    /// One way to misbehave.
    pub(crate) enum Trick {
        /// Nothing.
        None = "none",
        /// Works on two things at once, and says so.
        Parallel = "parallel",
        /// Runs an agent that asks its model.
        Asks = "asks",
        /// Cannot work without a skill.
        NeedsSkill = "needs_skill",
        /// Ends with a message and an exit code.
        Dies = "dies",
        /// Ends in the middle of a line.
        DiesInLine = "dies_in_line",
        /// Ends before it has said hello.
        DiesAtHello = "dies_at_hello",
        /// Ends before it has said hello, the first time that it finds no file of this name in its directory.
        DiesOnce = "dies_once",
        /// Prints lines without an end.
        Floods = "floods",
        /// Prints one line without an end.
        HugeLine = "huge_line",
        /// Answers a request that nobody made.
        WrongId = "wrong_id",
        /// Answers without saying what.
        NoId = "no_id",
        /// Answers twice.
        Twice = "twice",
        /// Prints a line that is not JSON.
        Garbage = "garbage",
        /// Prints bytes that are not UTF-8.
        Binary = "binary",
        /// Prints an empty line.
        Blank = "blank",
        /// Prints JSON that is not an object.
        Number = "number",
        /// Answers with a field that nobody knows.
        Misspelled = "misspelled",
        /// Answers without what has to be there.
        Missing = "missing",
        /// A score that is none.
        Seven = "seven",
        /// Reports an error of its own.
        Reports = "reports",
        /// Reports an error of its own for which another try does not help.
        Refuses = "refuses",
        /// Reports an error in a shape that nobody knows.
        ReportsOddly = "reports_oddly",
        /// Never answers.
        Silent = "silent",
        /// Never answers, and has started another program that does not end either.
        SilentWithChild = "silent_with_child",
        /// Ends by itself, and leaves another program running that has left its process group.
        LeavesDaemon = "leaves_daemon",
        /// Closes its standard output and lives on.
        ClosesStdout = "closes_stdout",
        /// Prints to its standard error without an end, and never answers.
        Complains = "complains",
        /// Speaks another version of the protocol.
        Version = "version",
        /// Says hello with something that is not one.
        BadHello = "bad_hello",
        /// Says hello without a name.
        Nameless = "nameless",
        /// Works on nothing at once.
        ParallelZero = "parallel_zero",
        /// Has no items.
        NoItems = "no_items",
        /// Has two items with one id.
        SameItems = "same_items",
        /// Has an item whose id is two lines.
        TwoLines = "two_lines",
        /// Has no items to learn from.
        NoTrain = "no_train",
        /// Another program at every start.
        Changes = "changes",
    }
}

/// Says hello, or does what is to be done instead.
pub(crate) fn at_hello(trick: Trick, request: &Value, hello: &Value) {
    let mut hello = hello.clone();
    match trick {
        Trick::DiesAtHello => {
            eprintln!("no port is free");
            exit(4);
        }
        Trick::DiesOnce if std::fs::File::create_new("died").is_ok() => exit(4),
        Trick::Version => hello = json!({"id": 0, "protocol": 2, "what": "is new"}),
        Trick::BadHello => hello["mode"] = json!("dance"),
        Trick::Nameless => hello["name"] = json!(" "),
        Trick::ParallelZero => hello["capabilities"] = json!({"parallel": 0}),
        Trick::NoItems => hello["items"] = Value::Null,
        Trick::SameItems => hello["items"]["val"] = hello["items"]["train"].clone(),
        Trick::TwoLines => hello["items"]["val"][0]["id"] = json!("one\ntwo"),
        Trick::NoTrain => hello["items"]["train"] = json!([]),
        Trick::Changes if request["items"] == false => hello["version"] = json!("8"),
        _ => {}
    }
    print(&hello);
}

/// Does what is to be done instead of an answer.
pub(crate) fn play(trick: Trick, request: &Value, answer: &Value) {
    let mut answer = answer.clone();
    match trick {
        Trick::Dies => {
            eprintln!("the first line\nsegmentation fault, or so");
            exit(3);
        }
        Trick::DiesInLine => {
            print_bytes(b"{\"id\": 2, \"obs");
            exit(0);
        }
        Trick::Floods => loop {
            print(&json!({"log": "still here"}));
        },
        Trick::HugeLine => loop {
            print_bytes(&[b'x'; 4096]);
        },
        Trick::WrongId => answer["id"] = json!(request["id"].as_u64().unwrap_or_default() + 100),
        Trick::NoId => answer["id"] = Value::Null,
        Trick::Twice => print(&answer),
        Trick::Garbage => {
            print_bytes(b"loading the model ...\n");
        }
        Trick::Binary => print_bytes(b"\xff\xfe\x00\x1b[31m\n"),
        Trick::Blank => print_bytes(b"\n"),
        Trick::Number => print_bytes(b"17\n"),
        Trick::Misspelled => answer["admissable"] = json!(["left"]),
        Trick::Missing => {
            if let Some(fields) = answer.as_object_mut() {
                fields.retain(|name, _| name != "observation" && name != "hard");
            }
        }
        Trick::Seven => answer["hard"] = json!(7),
        Trick::Reports => answer = json!({"id": request["id"], "error": "the game server is down"}),
        Trick::Refuses => {
            answer = json!({"id": request["id"], "error": {"message": "no such item", "retry": false}});
        }
        Trick::ReportsOddly => answer = json!({"id": request["id"], "error": 7}),
        Trick::Silent => sleep(),
        Trick::SilentWithChild => {
            let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn();
            eprintln!("child {}", child.map_or(0, |child| child.id()));
            sleep();
        }
        Trick::LeavesDaemon => {
            let mut daemon = Command::new("setsid");
            daemon.args(["sleep", "1000"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            eprintln!("child {}", daemon.spawn().map_or(0, |daemon| daemon.id()));
            exit(3);
        }
        Trick::ClosesStdout => close_stdout(),
        Trick::Complains => loop {
            eprintln!("a warning that is printed again and again");
        },
        _ => {}
    }
    print(&answer);
}

/// Does nothing until it is killed.
fn sleep() -> ! {
    loop {
        std::thread::park();
    }
}

/// Hands standard output to a program that ends at once, and becomes one that never writes.
#[cfg(unix)]
fn close_stdout() -> ! {
    use std::os::unix::process::CommandExt as _;
    // What is executed keeps the process and its streams, except for the one that is replaced.
    let error = Command::new("sleep").arg("1000").stdin(Stdio::inherit()).stdout(Stdio::null()).exec();
    eprintln!("cannot go on as another program: {error}");
    exit(5);
}

/// There is no such thing here.
#[cfg(not(unix))]
fn close_stdout() -> ! {
    exit(0);
}
