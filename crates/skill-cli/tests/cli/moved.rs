//! The directory of a run that is renamed or replaced while the run is at work: the run ends, and is not split in two.

use crate::context::{assert_same_files, code};
use crate::server::{self, Server};

#[test]
fn a_run_whose_directory_is_renamed_or_replaced_ends_and_is_resumed_in_its_new_place() {
    let (server, context) = Server::start_with_task();
    let train = |dir: &str| {
        let run_dir = format!("run.dir={dir}");
        context.run(&["train", "task/skillrl.toml", "--quiet", "--set", "run.workers=1", "--set", &run_dir])
    };
    server.answer_with(|_, request| server::healthy(request));
    train("undisturbed").assert_code(code::SUCCESS);
    let (expect, n_calls) = (context.untimed_files("undisturbed"), server.n_calls());
    for is_replaced in [false, true] {
        for at_call in [1, n_calls / 3, 2 * n_calls / 3, n_calls] {
            let (name, moved) =
                (format!("run-{is_replaced}-{at_call}"), format!("moved-{is_replaced}-{at_call}"));
            let (from, to) = (context.path(&name), context.path(&moved));
            server.answer_with(move |call, request| {
                if call == at_call {
                    std::fs::rename(&from, &to).unwrap();
                    if is_replaced {
                        std::fs::create_dir(&from).unwrap();
                    }
                }
                server::healthy(request)
            });
            train(&name).assert_code(code::RUN_DIR);
            let left = context.files(&name);
            assert!(left.keys().all(|file| file == std::path::Path::new("live.json")), "{name}: {left:?}");
            assert_eq!(context.path(&name).exists(), is_replaced);
            train(&moved).assert_code(code::SUCCESS);
            assert_same_files(&context.untimed_files(&moved), &expect);
        }
    }
}
