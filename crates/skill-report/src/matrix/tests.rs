use super::*;

fn results(hard: &[f64], replies: &[&str], calls: u64) -> CellResults {
    let of = |(idx, hard): (usize, &f64)| RolloutResult::new(ItemId::new(format!("i{idx}")), *hard, *hard);
    let mut used = StageTokens::default();
    used.calls = calls;
    CellResults {
        results: hard.iter().enumerate().map(of).collect(),
        replies: replies.iter().map(|reply| (*reply).to_owned()).collect(),
        used,
        cost: (calls > 0).then_some(0.5),
        seconds: Some(2.0),
        is_of_run: false,
    }
}

fn matrix(measured: &[Result<CellResults, String>]) -> Matrix {
    let model = |name: &str| MatrixModel { name: name.to_owned(), model: format!("p/{name}") };
    let skill =
        |name: &str| MatrixSkill { name: name.to_owned(), hash: skill_core::SkillDoc::new(name).hash() };
    let texts = BTreeMap::from([(
        ItemId::new("i1"),
        ItemTexts { question: "2, or <b>3</b>?".to_owned(), reference: "3".to_owned() },
    )]);
    Matrix::of(
        ("val", Gate::default()),
        vec![model("a"), model("b|c")],
        vec![skill("x.md"), skill("y.md")],
        measured,
        &texts,
    )
}

fn whole() -> Matrix {
    matrix(&[
        Ok(results(&[0.0, 0.0], &["no", "<script>"], 2)),
        Ok(results(&[1.0, 0.0], &["yes", "no"], 2)),
        Err("the server is gone".to_owned()),
        Ok(results(&[1.0, 0.0], &["ja, gut", "\"nein\""], 2)),
    ])
}

#[test]
fn cells_are_paired_with_the_first_one_and_skills_within_a_model() {
    let matrix = whole();
    let versus: Vec<Option<f64>> =
        matrix.cells.iter().map(|cell| cell.versus_first.as_ref().map(|of| of.difference)).collect();
    assert_eq!(versus, [None, Some(0.5), None, Some(0.5)]);
    let rows: Vec<_> = matrix.rows.iter().map(|row| row.compared.as_ref().map(|of| of.difference)).collect();
    assert_eq!(rows, [Some(0.5), None]);
    assert_eq!(matrix.rows[1].problem.as_deref(), Some("the server is gone"));
    assert_eq!((matrix.cost, matrix.mean_difference), (Some(1.5), Some(0.5)));
    // An item on which cells differ is first, with a reply for each cell.
    let first = &matrix.items[0];
    assert!(first.differs && first.id.as_str() == "i0" && first.replies.len() == 4);
    assert_eq!(first.replies[2], None);
}

#[test]
fn a_cost_is_unknown_where_a_part_of_it_is() {
    let unpriced = CellResults { cost: None, ..results(&[1.0], &[""], 1) };
    assert_eq!(matrix(&[Ok(results(&[1.0], &[""], 1)), Ok(unpriced)]).cost, None);
}

#[test]
fn tables_of_a_matrix_hold_any_text() {
    let matrix = whole();
    let csv = matrix.csv();
    assert!(csv.starts_with("id,task_type,question,reference,a / x.md: hard,"), "{csv}");
    assert!(csv.contains("\"ja, gut\"") && csv.contains("\"\"\"nein\"\"\""), "{csv}");
    let markdown = matrix.markdown();
    assert!(markdown.contains("b\\|c") && markdown.contains("the server is gone"), "{markdown}");
    let page = crate::matrix_page(&matrix).unwrap();
    assert!(page.contains("&lt;script&gt;") && page.contains("&lt;b&gt;3&lt;"), "{page}");
    assert!(!page.contains("data-left-out"), "{page}");
}
