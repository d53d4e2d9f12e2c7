//! Primitives of an SVG: layers of shapes, styled words in lines, and text that is safe in XML.

/// Words, each with its class.
pub(super) type Line = Vec<(&'static str, String)>;

/// Layers, the lowest first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layer {
    /// Backgrounds of rows.
    Ground,
    /// Lifelines and waits.
    Lines,
    /// Bands and marks.
    Marks,
    /// Text.
    Text,
}

/// Shapes in layers.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    layers: [String; 4],
}

impl Canvas {
    fn add(&mut self, layer: Layer, shape: &str) {
        let layer = match layer {
            Layer::Ground => &mut self.layers[0],
            Layer::Lines => &mut self.layers[1],
            Layer::Marks => &mut self.layers[2],
            Layer::Text => &mut self.layers[3],
        };
        *layer += shape;
        layer.push('\n');
    }

    /// A rectangle with rounded corners, at `[x, y]` and of `[width, height]`.
    pub(super) fn rectangle(
        &mut self,
        layer: Layer,
        class: &str,
        [x, y]: [usize; 2],
        [width, height]: [usize; 2],
    ) {
        let shape =
            format!(r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>"#);
        self.add(layer, &shape);
    }

    /// A straight line.
    pub(super) fn line(&mut self, layer: Layer, class: &str, [x1, y1]: [usize; 2], [x2, y2]: [usize; 2]) {
        self.add(layer, &format!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#));
    }

    /// A dot.
    pub(super) fn dot(&mut self, class: &str, [x, y]: [usize; 2]) {
        self.add(Layer::Marks, &format!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="4"/>"#));
    }

    /// One line of text; `class` holds for words without one of their own.
    pub(super) fn text(&mut self, class: &str, [x, y]: [usize; 2], line: &Line) {
        let word = |(class, word): &(&str, String)| match *class {
            "" => escaped(word),
            class => format!(r#"<tspan class="{class}">{}</tspan>"#, escaped(word)),
        };
        let words: Vec<String> = line.iter().map(word).collect();
        self.add(
            Layer::Text,
            &format!(r#"<text class="{class}" x="{x}" y="{y}">{}</text>"#, words.join(" ")),
        );
    }

    /// The document.
    pub(super) fn document(&self, [width, height]: [usize; 2], title: &str, style: &str) -> String {
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>{}</title>
<style>{style}</style>
<rect class="page" width="{width}" height="{height}"/>
{}</svg>
"#,
            escaped(title),
            self.layers.concat()
        )
    }
}

/// `text` as words of a class.
pub(super) fn words(class: &'static str, text: &str) -> Line {
    text.split_whitespace().map(|word| (class, word.to_owned())).collect()
}

/// `line` in lines of at most `width` characters; longer words are cut.
pub(super) fn wrap(line: &Line, width: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut room = 0;
    for (class, word) in line {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(width.max(1)) {
            let word = (*class, piece.iter().collect());
            match lines.last_mut() {
                Some(line) if piece.len() < room => {
                    line.push(word);
                    room -= piece.len() + 1;
                }
                Some(_) | None => {
                    lines.push(vec![word]);
                    room = width.saturating_sub(piece.len());
                }
            }
        }
    }
    lines
}

/// `text` as XML may hold it.
fn escaped(text: &str) -> String {
    let escaped = |character: char| match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => " ".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escaped).collect()
}
