import Foundation
import TestSupport
import Testing

/// Every relative link of every page leads to a file, and to a heading if it names one.
struct LinkTests {
    /// The pages of the repository, without hidden and generated folders.
    private static let pages: [String] = {
        let skipped: Set<String> = ["node_modules"]
        var found: [String] = []
        var folders = [""]
        while let folder = folders.popLast() {
            let url = DocumentedCode.root.appendingPathComponent(folder)
            for name in (try? FileManager.default.contentsOfDirectory(atPath: url.path)) ?? [] {
                guard !name.hasPrefix("."), !skipped.contains(name) else { continue }
                let path = folder.isEmpty ? name : "\(folder)/\(name)"
                if name.hasSuffix(".md") {
                    found.append(path)
                } else if DocumentedCode.root.appendingPathComponent(path).isDirectory {
                    folders.append(path)
                }
            }
        }
        return found.sorted()
    }()

    @Test func pagesAreFound() {
        #expect(Self.pages.contains("README.md"))
        #expect(Self.pages.contains("Docs/Sending.md"))
        #expect(Self.pages.contains { $0.hasSuffix(".docc/GettingStarted.md") })
    }

    @Test(arguments: pages) func relativeLinksHaveTargets(page: String) throws {
        let text = try String(contentsOf: DocumentedCode.root.appendingPathComponent(page), encoding: .utf8)
        let folder = DocumentedCode.root.appendingPathComponent(page).deletingLastPathComponent()
        for link in Markdown(text).links where !link.contains(":") {
            let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let path = parts[0].removingPercentEncoding ?? parts[0]
            let target =
                path.isEmpty
                ? DocumentedCode.root.appendingPathComponent(page)
                : folder.appendingPathComponent(path).standardizedFileURL
            guard FileManager.default.fileExists(atPath: target.path) else {
                Issue.record("\(page): \(link) leads to no file")
                continue
            }
            guard parts.count == 2, target.pathExtension == "md" else { continue }
            let anchors = Markdown(try String(contentsOf: target, encoding: .utf8)).anchors
            #expect(anchors.contains(parts[1]), "\(page): \(link) leads to no heading")
        }
    }

    @Test func linksAndHeadingsAreFound() {
        let markdown = Markdown(
            """
            # A `b` & c, d_e
            [x](One.md#a) `[y](Two.md)` [z](<Three.md> "t") ![i](Four.png)
            ```sh
            # No heading [n](Five.md)
            ```
            ## Same
            ## Same
            """
        )
        #expect(markdown.links == ["One.md#a", "Three.md", "Four.png"])
        #expect(markdown.anchors == ["a-b--c-d_e", "same", "same-1"])
    }
}

/// The links and headings of a page.
private struct Markdown {
    /// The lines outside fenced blocks.
    private let lines: [String]

    init(_ text: String) {
        var isFenced = false
        self.lines = text.components(separatedBy: "\n").filter { line in
            guard line.trimmingCharacters(in: .whitespaces).hasPrefix("```") else { return !isFenced }
            isFenced.toggle()
            return false
        }
    }

    /// The targets of links and pictures, outside code.
    var links: [String] {
        let prose = self.lines.joined(separator: "\n").replacing(/`[^`\n]*`/, with: "code")
        return prose.matches(of: /\]\(\s*<?([^)>\s]+)>?[^)]*\)/).map { String($0.1) }
    }

    /// The headings' anchors, as GitHub makes them.
    var anchors: [String] {
        var counts: [String: Int] = [:]
        return self.lines.compactMap { $0.wholeMatch(of: /#{1,6} +(.*?)\s*#*/)?.1 }.map { heading in
            let title = heading.replacing(/\[([^\]]*)\]\([^)]*\)/) { $0.1 }
            let kept = title.lowercased().filter { $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_" }
            let slug = kept.replacingOccurrences(of: " ", with: "-")
            defer { counts[slug, default: 0] += 1 }
            return counts[slug].map { "\(slug)-\($0)" } ?? slug
        }
    }
}

extension URL {
    fileprivate var isDirectory: Bool {
        var isDirectory: ObjCBool = false
        _ = FileManager.default.fileExists(atPath: self.path, isDirectory: &isDirectory)
        return isDirectory.boolValue
    }
}
