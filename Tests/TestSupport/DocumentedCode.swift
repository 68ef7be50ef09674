public import Foundation

/// The fenced code blocks of Markdown pages and doc comments, for comparison with compiled code.
public enum DocumentedCode {
    /// A block and its page.
    public struct Block: Sendable, CustomStringConvertible {
        public let page: String
        public let text: String

        public var description: String { "\(self.page): \(self.text.prefix(60))" }
    }

    /// The blocks of one language in the pages of a folder, or in one page, in their order.
    ///
    /// - Parameters:
    ///   - path: the folder or page, relative to the root of the repository.
    ///   - language: the language named after the fence.
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

    /// The Swift blocks in the doc comments of a folder's sources, in the order of their files' paths.
    ///
    /// - Parameter folder: the folder, relative to the root of the repository.
    public static func commentBlocks(in folder: String) throws -> [Block] {
        let paths = try FileManager.default.subpathsOfDirectory(atPath: self.root.appendingPathComponent(folder).path)
        return try paths.filter { $0.hasSuffix(".swift") }.sorted().flatMap { path in
            var blocks: [Block] = []
            var open: [String]?
            for line in try String(contentsOf: self.root.appendingPathComponent("\(folder)/\(path)"), encoding: .utf8)
                .components(separatedBy: "\n").map({ $0.trimmingCharacters(in: .whitespaces) })
            {
                if line == "/// ```swift" {
                    open = []
                } else if line == "/// ```", let lines = open {
                    blocks.append(Block(page: "\(folder)/\(path)", text: lines.joined(separator: "\n")))
                    open = nil
                } else if line.hasPrefix("///") {
                    open?.append(String(line.dropFirst(4)))
                }
            }
            return blocks
        }
    }

    /// The block without its imports, which a source file has at its top.
    public static func withoutImports(_ block: Block) -> String {
        block.text.split(separator: "\n", omittingEmptySubsequences: false).filter { !$0.hasPrefix("import ") }
            .joined(separator: "\n").trimmingCharacters(in: .newlines)
    }

    /// The root of the repository.
    public static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
}
