public import Foundation

/// The fenced blocks of Markdown pages, to be held against code that is compiled.
public enum DocumentedCode {
    /// A block and the page that it stands on.
    public struct Block: Sendable, CustomStringConvertible {
        public let page: String
        public let text: String

        public var description: String { "\(self.page): \(self.text.prefix(60))" }
    }

    /// The blocks of one language in the pages of a folder, or in one page, in their order.
    ///
    /// - Parameters:
    ///   - path: from the root of the repository.
    ///   - language: what stands behind the fence.
    public static func blocks(in path: String, language: String) throws -> [Block] {
        let url = self.root.appendingPathComponent(path)
        var pages = [url]
        if url.hasDirectoryPath || path.hasSuffix(".docc") {
            pages = try FileManager.default.contentsOfDirectory(atPath: url.path).filter { $0.hasSuffix(".md") }
                .sorted()
                .map { url.appendingPathComponent($0) }
        }
        return try pages.flatMap { page in
            try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```\(language)\n").dropFirst()
                .map { Block(page: page.lastPathComponent, text: $0.components(separatedBy: "```")[0]) }
        }
    }

    /// The block without the lines that import modules, which stand on top of a source file.
    public static func withoutImports(_ block: Block) -> String {
        block.text.split(separator: "\n", omittingEmptySubsequences: false).filter { !$0.hasPrefix("import ") }
            .joined(separator: "\n").trimmingCharacters(in: .newlines)
    }

    /// The root of the repository.
    public static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
}
