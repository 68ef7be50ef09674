#if Sealing
    import Foundation
    import Testing

    /// The catalog's examples are compiled in `DocumentedExamples.swift`.
    struct DocumentationTests {
        private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        private static let catalog = tests.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Sources/APNSSealing/Documentation.docc")

        @Test func everyExampleIsCompiled() throws {
            let file = try String(
                contentsOf: Self.tests.appendingPathComponent("DocumentedExamples.swift"),
                encoding: .utf8
            )
            // That file is inside an `#if` and therefore indented one level more than the catalog's text.
            let source = file.components(separatedBy: "\n").map { $0.hasPrefix("    ") ? String($0.dropFirst(4)) : $0 }
                .joined(separator: "\n")
            var examples = 0
            for name in try FileManager.default.contentsOfDirectory(atPath: Self.catalog.path)
            where name.hasSuffix(".md") {
                let page = try String(contentsOf: Self.catalog.appendingPathComponent(name), encoding: .utf8)
                for block in page.components(separatedBy: "```swift\n").dropFirst() {
                    let lines = block.components(separatedBy: "```")[0].split(
                        separator: "\n",
                        omittingEmptySubsequences: false
                    )
                    let example = lines.filter { !$0.hasPrefix("import ") }.joined(separator: "\n")
                        .trimmingCharacters(in: .newlines)
                    #expect(source.contains(example), "\(name): \(example.prefix(60))")
                    examples += 1
                }
            }
            #expect(examples == 11)
        }
    }
#endif
