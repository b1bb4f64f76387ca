//! Lists of nodes as batch systems write them: `n0,n1`, `n[00-03,7]`, `rack[1-2]n[0-3]`.

/// The most nodes of a list. A partition has no more servers.
const MOST_NODES: usize = 1 << 16;

/// The nodes of a list, in its order and each once; `None` if it is no such list.
pub fn node_names(list: &str) -> Option<Vec<String>> {
    let mut nodes = Vec::new();
    for item in split_outside_brackets(list)? {
        for node in expand(item.trim())? {
            if nodes.len() == MOST_NODES {
                return None;
            }
            nodes.push(node);
        }
    }
    let mut seen = std::collections::HashSet::new();
    nodes.retain(|node| seen.insert(node.clone()));
    if nodes.is_empty() { None } else { Some(nodes) }
}

/// The parts between commas that are not within brackets.
fn split_outside_brackets(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' if !is_inside => is_inside = true,
            ']' if is_inside => is_inside = false,
            '[' | ']' => return None,
            ',' if !is_inside => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    if is_inside { None } else { Some(parts) }
}

/// The names that an item with any number of brackets stands for.
fn expand(item: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = item.split_once('[') else {
        return if item.is_empty() { None } else { Some(vec![item.to_owned()]) };
    };
    let (inner, after) = rest.split_once(']')?;
    let ends = if after.is_empty() { vec![String::new()] } else { expand(after)? };
    let mut names = Vec::new();
    for number in inner.split(',').map(numbers) {
        for number in number? {
            for end in &ends {
                if names.len() == MOST_NODES {
                    return None;
                }
                names.push(format!("{before}{number}{end}"));
            }
        }
    }
    Some(names)
}

/// The numbers of `7` or `00-03`, as wide as the first is written.
fn numbers(range: &str) -> Option<Vec<String>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (from, to, width) = (number(first)?, number(last)?, first.len());
    if from > to || to - from >= MOST_NODES as u64 {
        return None;
    }
    Some((from..=to).map(|number| format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> String {
        node_names(list).map_or_else(|| "none".to_owned(), |nodes| nodes.join(" "))
    }

    #[test]
    fn lists_are_expanded_as_slurm_writes_them() {
        assert_eq!(names("n0"), "n0");
        assert_eq!(names("n0,login2.cluster, n1"), "n0 login2.cluster n1");
        assert_eq!(names("n[00-02,7],m1"), "n00 n01 n02 n7 m1");
        assert_eq!(names("n[098-101]"), "n098 n099 n100 n101");
        assert_eq!(names("rack[1-2]n[0-1]x"), "rack1n0x rack1n1x rack2n0x rack2n1x");
        assert_eq!(names("n1,n0,n1"), "n1 n0", "each once");
    }

    #[test]
    fn others_are_no_lists() {
        for list in ["", "n0,", "n[", "n]", "n[[1]]", "n[2-1]", "n[a-b]", "n[1-]", "n[]", "n[0-99999999]"] {
            assert_eq!(names(list), "none", "{list}");
        }
    }
}
