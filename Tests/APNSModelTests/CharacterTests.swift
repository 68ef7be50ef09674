import Testing

@testable import APNSModel

/// Strings are read eight bytes at a time. So each character is tried at each place of strings up to two words long.
struct CharacterTests {
    /// Strings with one character among others that need no escape and are allowed in headers.
    private static func eachPlace(of character: Character) -> [String] {
        (0...17).flatMap { length in
            (0...length).map { place in
                String(repeating: "a", count: place) + [character] + String(repeating: "b", count: length - place)
            }
        }
    }

    /// All of ASCII, and one character of each other length in UTF-8.
    private static let characters: [Character] =
        (0..<0x80).map { Character(Unicode.Scalar(UInt8($0))) } + ["é", "日", "👋"]

    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { scalar in
            switch scalar {
            case "\"": #"\""#
            case "\\": #"\\"#
            case "\u{8}": #"\b"#
            case "\t": #"\t"#
            case "\n": #"\n"#
            case "\u{C}": #"\f"#
            case "\r": #"\r"#
            case "\u{0}"..<" ":
                #"\u00"# + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            default: String(scalar)
            }
        }.joined()
    }

    @Test("A JSON string escapes quotes, backslashes and control characters, and nothing else")
    func json() {
        let several = [String(Self.characters), #"""\\"#, #"\"aaaaaaaaa\"\#taaa\"# + "\n"]
        for text in Self.characters.flatMap(Self.eachPlace) + several + [""] {
            // A second string shows that the first one counts as many bytes as it wrote.
            var writer = JSONByteWriter()
            writer.string(text)
            writer.string(text)
            let expected = "\"\(Self.escaped(text))\""
            #expect(String(decoding: writer.bytes(), as: UTF8.self) == expected + expected)
        }
    }

    @Test("A topic has visible ASCII characters only, and a collapse id blanks between them")
    func headers() {
        for character in Self.characters {
            let isVisible = character.asciiValue.map { (0x21...0x7E).contains($0) } ?? false
            for text in Self.eachPlace(of: character) {
                #expect(HeaderRules.isVisibleASCII(text) == isVisible)
                let isBetween = text.first != " " && text.last != " "
                #expect(HeaderRules.isHeaderText(text) == (isVisible || character == " " && isBetween))
            }
        }
    }
}
