//! Whatever strings come in: nothing panics, messages stay on one line, and what is in force can be applied
//! again with the same result.

use pario_hints::{ApplyOutcome, HintSource, Hints, load, parse_hint_file, parse_hint_variable, table};
use proptest::prelude::*;

fn source() -> impl Strategy<Value = HintSource> {
    prop_oneof![Just(HintSource::HintFile), Just(HintSource::Environment), Just(HintSource::Info)]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![9 => (0..table().len()).prop_map(|i| table()[i].name.to_owned()), 1 => any::<String>()]
}

/// Values that are often right and always plausible.
fn value() -> impl Strategy<Value = String> {
    let words =
        ["enable", "DISABLE", "automatic", "true", "auto", "even", "random,sequential", "*:1,n0:2", "0644"];
    prop_oneof![
        3 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        3 => (any::<u64>(), proptest::sample::select(vec!["", "k", "M", "GiB", "T", "x"]))
            .prop_map(|(n, unit)| format!("{}{unit}", n >> (n % 64))),
        2 => "[0-9]{1,3}(,[0-9]{1,3}){0,3}",
        2 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn hints_in_force_can_be_applied_again(all in proptest::collection::vec((source(), name(), value()), 0..30)) {
        let mut hints = Hints::new();
        for (source, name, value) in &all {
            if let ApplyOutcome::Refused(refusal) = hints.apply(*source, name, value) {
                prop_assert!(!refusal.to_string().contains('\n'));
            }
        }
        let mut again = Hints::new();
        for (name, value, source) in hints.in_force() {
            prop_assert_eq!(again.apply(source, name, &value), ApplyOutcome::Accepted);
        }
        prop_assert!(again.in_force().eq(hints.in_force()));
    }

    #[test]
    fn any_text_is_a_hint_file(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        let (good, bad) = parse_hint_file(&text);
        prop_assert!(good.len() + bad.len() <= text.lines().count());
        parse_hint_variable(&text);
        let (_, problems) = load(&|_| Some(text.clone().into_owned()), Some(&text));
        for complaint in problems {
            prop_assert!(!complaint.to_string().contains('\n'));
        }
    }

    #[test]
    fn good_lines_survive_rubbish(good in 1u32..1000, rubbish in "[ -~]{0,30}") {
        let text = format!("#{rubbish}\ncb_nodes {good}\n{rubbish} x y z\n");
        let (hints, _) = load(&|_| None, Some(&text));
        prop_assert_eq!(hints.get("cb_nodes"), Some((good.to_string(), HintSource::HintFile)));
    }
}
