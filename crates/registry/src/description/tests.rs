//! Both formats, their errors, and that what is written reads back.

use super::*;
use crate::error::DescriptionError;
use pario_types::{MAX_NETWORK_BUFFER, Strategy as Access};
use proptest::prelude::*;
use proptest::strategy::Strategy;

/// The example of the AHPIOS paper, section 5.1, to the letter.
const PAPER: &str = "\
# The default stripe size of the partition
stripe_size = 64k
# Number of IOS
nr_ios = 4
# Storage resources of AHPFS servers
ahpfs_server = n0:/data
ahpfs_server = n1:/data
ahpfs_server = n2:/data
ahpfs_server = n3:/data
# Path of the metadata directory
metadata = n0:/data
";

const TOML: &str = r#"
name = "scratch"
stripe_size = "1M"
servers = [
    "n0:/data", # the first
    "n0:/more",
    "n1:/data",
]
metadata = "n1:/data"
cache = 0x10_0000
high_water = "75%"
low_water = 3
supervise = false
deadline = 5
"#;

fn fault(text: &str) -> (Option<usize>, String) {
    match Description::parse(text, Some("fallback")) {
        Err(Error::Description(fault)) => (fault.line(), fault.to_string()),
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn the_example_of_the_paper_is_read_as_it_stands() {
    let description = Description::parse(PAPER, Some("paper")).expect("read");
    let Structure { name, servers, metadata, stripe_size, block_size } = description.structure();
    let servers: Vec<_> = servers.iter().map(Resource::to_string).collect();
    assert_eq!(servers, ["n0:/data", "n1:/data", "n2:/data", "n3:/data"]);
    assert_eq!((name.as_str(), metadata.0, *stripe_size, *block_size), ("paper", 0, 65536, 65536));
    assert_eq!(description.settings(), &Settings::default());
}

#[test]
fn the_plain_format_has_all_keys() {
    let text = format!("{PAPER}name = mine # a comment\r\ncache = 1G\nlauncher = SSH\nmetadata=n2:/data\n");
    let text = text.replace("metadata = n0:/data\n", "");
    let description = Description::parse(&text, None).expect("read");
    assert_eq!((description.name(), description.structure().metadata.0), ("mine", 2));
    assert_eq!((description.settings().cache, description.settings().launcher), (1 << 30, Launcher::Ssh));
}

#[test]
fn toml_is_read() {
    let description = Description::parse(TOML, Some("other")).expect("read");
    let settings = description.settings();
    assert_eq!((description.name(), description.structure().metadata.0), ("scratch", 2));
    assert_eq!((settings.cache, description.cache_blocks(), settings.supervise), (1 << 20, 16, false));
    assert_eq!((settings.high_water.of(16), settings.low_water.of(16)), (12, 3));
    assert_eq!(settings.deadline, Duration::from_secs(5));
}

#[test]
fn the_documented_example_is_the_description_itself() {
    let description = Description::parse(TOML, None).expect("read");
    let text = description.documented();
    assert_eq!(Description::parse(&text, None).expect("read"), description, "{text}");
    assert!(text.contains("# The partition's name."), "{text}");
    assert!(keys().iter().all(|key| !key.doc.is_empty()));
}

#[test]
fn mistakes_are_named_with_line_and_key() {
    let one = "servers = ['/d']\n";
    for (text, line, words) in [
        // Keys.
        (format!("{one}stripesize = 1"), Some(2), "no key \"stripesize\"; is stripe_size meant?"),
        (format!("{one}[cache]\nsize = 1"), Some(2), "allowed: a size from 64K"),
        (format!("{one}colour = 'red'"), Some(2), "no key \"colour\""),
        (format!("{PAPER}ahpfs_serve = n9:/d"), Some(12), "is ahpfs_server meant?"),
        (format!("{PAPER}nr_ios = 4"), Some(12), "nr_ios is here for the second time"),
        // Values.
        (format!("{one}stripe_size = 511"), Some(2), "stripe_size = \"511\"; allowed: a size from 512 to 1T"),
        (format!("{one}stripe_size = -1"), Some(2), "stripe_size = \"-1\""),
        (format!("{one}stripe_size = 1.5"), Some(2), "stripe_size = \"1.5\""),
        (format!("{one}stripe_size = ['64k']"), Some(2), "stripe_size = \"['64k']\""),
        (format!("{one}block_size = '48k'"), Some(2), "a power of two from 4K to 64M"),
        (format!("{one}supervise = 'perhaps'"), Some(2), "true or false"),
        (format!("{one}launcher = 'rsh'"), Some(2), "one of auto, local, ssh, srun, mpiexec"),
        (format!("{one}deadline = '1ms'"), Some(2), "a time from 100ms to 86400s"),
        (format!("{one}workers = 0"), Some(2), "from 1 to 256"),
        (format!("{one}name = '../x'"), Some(2), "name = \"../x\""),
        ("servers = [\n'/a',\n'b']".into(), Some(3), "servers = \"b\"; allowed: node:/dir or /dir"),
        (PAPER.replace("n2:/data", "-n2:/data"), Some(8), "servers = \"-n2:/data\""),
        (PAPER.replace("64k", "64 Kibble"), Some(2), "stripe_size = \"64 Kibble\""),
        // The whole.
        ("stripe_size = '64k'".into(), None, "servers is missing"),
        ("servers = []".into(), None, "servers is missing"),
        (String::new(), None, "servers is missing"),
        ("servers = [\n'/a',\n'/a/']".into(), Some(3), "/a is a server already"),
        (PAPER.replace("= 4", "= 5"), Some(4), "nr_ios = 5, but the number of servers is 4"),
        (PAPER.replace("metadata = n0", "metadata = n9"), Some(11), "n9:/data, which is none of the servers"),
        (format!("{one}block_size = '1M'\ncache = '8M'"), Some(3), "less than 16 blocks"),
        (
            format!("{one}high_water = '20%'"),
            Some(2),
            "low_water is 1024 blocks, high_water 819, the cache 4096",
        ),
        (format!("{one}high_water = 4097"), Some(2), "high_water 4097"),
        (format!("{one}network_buffer = '16M'"), Some(2), "a size from 4K to 8M"),
        (format!("{one}strategy = 'data-shipping'"), Some(2), "one of auto, independent, two-phase"),
        (format!("{one}tier1_size = 1000"), Some(2), "a size from 4K to 4G"),
        (format!("{one}tier1_high_water = '101%'"), Some(2), "a percentage such as 50%"),
        (
            format!("{one}tier1_high_water = '20%'"),
            Some(2),
            "tier1_low_water is 25%, more than tier1_high_water, which is 20%",
        ),
        (format!("{one}strategy = 'client-directed'\ntier1 = false"), Some(3), "which tier1 = off forbids"),
        ("servers = ['/a', '/b']\nport = 65535".into(), Some(2), "port = 65535: 2 servers"),
        // Syntax.
        (format!("{one}stripe_size"), Some(2), ""),
        ("servers = ['/a'\nport = 1".into(), Some(2), ""),
        (format!("{PAPER}what is this"), Some(12), "\"what is this\" is not key = value"),
        (
            format!("{PAPER}cache = \"1G\""),
            Some(12),
            "this is TOML, but line 2 is not: put \"64k\" there in quotes",
        ),
        ("servers = [\n  \"a:/x\",\n]\nstripe_size = 64k".into(), Some(1), "but line 4 is not: put \"64k\""),
    ] {
        let (at, message) = fault(&text);
        assert_eq!(at, line, "{text}\n{message}");
        assert!(message.contains(words) && !message.contains('\n'), "{text}\n{message}");
    }
}

#[test]
fn a_file_without_name_has_its_own() {
    let read = |name| Description::parse("servers = ['/d']", name);
    assert_eq!(read(Some("p-1")).expect("read").name(), "p-1");
    assert!(matches!(read(None), Err(Error::Description(DescriptionError::Missing("name")))));
    assert!(matches!(read(Some("my part")), Err(Error::Description(DescriptionError::NoName(_)))));
}

#[test]
fn fixed_settings_are_compared() {
    let fixed = Description::parse(PAPER, Some("p")).expect("read");
    fixed.check_same_structure(&fixed.with("cache", "1G").expect("allowed")).expect("the same");
    for (key, value, was) in [
        ("stripe_size", "128K", "64K"),
        ("block_size", "4K", "64K"),
        ("metadata", "n1:/data", "n0:/data"),
        ("name", "q", "p"),
        ("servers", "n0:/data", "n0:/data n1:/data n2:/data n3:/data"),
    ] {
        let asked = fixed.with(key, value).expect("allowed");
        match fixed.check_same_structure(&asked) {
            Err(Error::Structure { key: named, fixed, asked, .. }) => {
                assert_eq!((named, fixed.as_str(), asked.as_str()), (key, was, value));
            }
            other => panic!("{key}: {other:?}"),
        }
    }
    assert!(fixed.with("chache", "1G").is_err() && fixed.with("cache", "much").is_err());
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let water = (1u8..50, 51u8..=100, any::<bool>());
    let words = (0..2usize, 0..5usize, 0..5usize, any::<bool>());
    let numbers =
        ((1u64 << 20)..(1 << 40), 4096u64..=MAX_NETWORK_BUFFER, 1u16..=256, 0u16..60000, 100u64..86_400_000);
    let listen = "(auto|all|none|10\\.0\\.0\\.[1-9]|fd00::[1-9]|[a-z]{3,8}[0-9])"
        .prop_map(|text| Listen::parse(&text).expect("one"));
    let tier1 = (4096u64..=(4 << 30), 0u8..=100, 0u8..=100);
    (water, words, numbers, listen, tier1).prop_map(|(water, words, numbers, listen, tier1)| {
        let (low, high, in_blocks) = water;
        let (cache, network_buffer, workers, port, deadline) = numbers;
        let cache = cache.max(64 << 22);
        let strategy = [
            Access::Auto,
            Access::Independent,
            Access::TwoPhase,
            Access::ClientDirected,
            Access::ServerDirected,
        ][words.1];
        Settings {
            cache,
            high_water: Water::Percent(high),
            low_water: if in_blocks { Water::Blocks(u64::from(low)) } else { Water::Percent(low) },
            workers,
            scheduling: [Scheduling::Fair, Scheduling::Arrival][words.0],
            access: AccessDefaults {
                strategy,
                network_buffer,
                tier1: !words.3 || strategy == Access::ClientDirected,
                tier1_size: tier1.0,
                tier1_high: tier1.1.max(tier1.2),
                tier1_low: tier1.1.min(tier1.2),
            },
            supervise: words.3,
            launcher: Launcher::parse(Launcher::WORDS[words.2]).expect("a word"),
            port,
            listen,
            encryption: !words.3,
            deadline: Duration::from_millis(deadline),
        }
    })
}

fn any_structure() -> impl Strategy<Value = Structure> {
    // Directories with quotes, brackets, hashes, equal signs, blanks inside, other letters.
    let dir = "(/[^/\\pC]{1,8}){1,3}".prop_filter_map("a directory", |text| {
        let resource = Resource::parse(&text)?;
        (resource.dir == text).then_some(text)
    });
    let node =
        prop_oneof![Just(None), "[a-z][a-z0-9.-]{0,8}".prop_map(Some), Just(Some("fd00::2".to_owned()))];
    let servers = prop::collection::hash_set((node, dir), 1..6);
    (servers, "[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}", 512u64..(1 << 40), 12u32..21, any::<u16>()).prop_map(
        |(servers, name, stripe_size, block, metadata)| {
            let servers: Vec<_> = servers.into_iter().map(|(node, dir)| Resource { node, dir }).collect();
            let metadata = ServerId(metadata % servers.len() as u16);
            Structure { name, servers, metadata, stripe_size, block_size: 1 << block }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn written_descriptions_read_back(structure in any_structure(), settings in any_settings()) {
        let description = Description::new(structure, settings).expect("sound");
        let text = description.to_string();
        prop_assert_eq!(&Description::parse(&text, None).expect(&text), &description);
        prop_assert_eq!(&Description::parse(&description.documented(), None).expect("sound"), &description);
        let json = serde_json::to_string(&description).expect("written");
        prop_assert_eq!(&serde_json::from_str::<Description>(&json).expect(&json), &description);
        description.check_same_structure(&description).expect("the same");
    }

    /// The plain format cannot express everything (a directory with ` #`); all else reads the same.
    #[test]
    fn the_plain_format_says_the_same(settings in any_settings(), count in 1usize..5, stripe_size in 512u64..9999) {
        let server = |i| Resource::parse(&format!("n{i}:/d")).expect("one");
        let servers: Vec<_> = (0..count).map(server).collect();
        let metadata = ServerId(count as u16 - 1);
        let structure = Structure { name: "p".into(), servers, metadata, stripe_size, block_size: 65536 };
        let description = Description::new(structure, settings).expect("sound");
        let mut plain = String::new();
        for (key, value) in description.draft().spelled() {
            for setting in draft::settings_of(key, value) {
                plain += &format!("{} = {}\n", setting.key, setting.value);
            }
        }
        prop_assert_eq!(&Description::parse(&plain, None).expect(&plain), &description);
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text in "(\\PC|[=#\\[\\]\"'\n]){0,200}") {
        let _ = Description::parse(&text, Some("x"));
    }

    #[test]
    fn any_likely_text_is_parsed_without_a_panic(
        lines in prop::collection::vec(("(name|servers|nr_ios|metadata|cache|port)", "[\\PC]{0,12}"), 0..8)
    ) {
        let text: String = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let _ = Description::parse(&text, None);
    }
}
