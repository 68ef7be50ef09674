import APNSPool
import ArgumentParser

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Where options come from when the command line does not have them.
struct EnvironmentVariables: Sendable {
    /// An empty variable is none.
    var value: @Sendable (String) -> String?

    static let process = EnvironmentVariables { name in
        guard let text = getenv(name) else { return nil }
        return String(cString: text)
    }
}

/// Where an option's value stood.
enum SettingOrigin: Int, Comparable, Sendable {
    case commandLine
    case environment
    case file

    static func < (left: SettingOrigin, right: SettingOrigin) -> Bool { left.rawValue < right.rawValue }
}

/// The places where options are looked for: the command line goes before the environment, and that before the file.
struct SettingSources: Sendable {
    var environment: EnvironmentVariables
    /// Nil: none was named.
    var file: ConfigurationFile?

    /// The option's value, from the first place that has it.
    ///
    /// - Parameters:
    ///   - option: `--pool-size`
    ///   - value: What the command line has.
    ///   - variable: `APNS_POOL_SIZE`
    ///   - key: `apns.pool.size`
    func setting(_ option: String, _ value: String?, _ variable: String, _ key: String) -> Setting? {
        if let value { return Setting(name: option, text: value, origin: .commandLine) }
        if let text = self.environment.value(variable), !text.isEmpty {
            return Setting(name: variable, text: text, origin: .environment)
        }
        if let file, let text = file.value(key), !text.isEmpty {
            return Setting(name: key, text: text, origin: .file)
        }
        return nil
    }
}

/// One option as text, with the name to complain about.
struct Setting: Sendable {
    var name: String
    var text: String
    var origin: SettingOrigin

    init(name: String, text: String, origin: SettingOrigin = .commandLine) {
        self.name = name
        self.text = text
        self.origin = origin
    }

    var isFromCommandLine: Bool { self.origin == .commandLine }

    func integer(_ range: ClosedRange<Int>) throws -> Int {
        guard let number = Int(self.text), range.contains(number) else {
            throw UsageError(
                "\(self.name): '\(self.text)' is not a whole number from \(range.lowerBound) to \(range.upperBound)."
            )
        }
        return number
    }

    /// Seconds, with a fraction if need be.
    func seconds(atMost limit: Double) throws -> Duration {
        guard let number = Double(self.text), number >= 0.001, number <= limit else {
            throw UsageError("\(self.name): '\(self.text)' is not a number of seconds above 0, at most \(Int(limit)).")
        }
        return .milliseconds(Int64((number * 1000).rounded()))
    }

    func boolean() throws -> Bool {
        switch self.text.lowercased() {
        case "1", "true", "yes", "on": return true
        case "0", "false", "no", "off": return false
        default: throw UsageError("\(self.name): '\(self.text)' is neither 1 nor 0.")
        }
    }

    /// Of two that exclude each other the one that stands in the place that goes first.
    static func choose(_ first: Setting?, _ second: Setting?) throws -> (Setting?, Setting?) {
        guard let first, let second else { return (first, second) }
        guard first.origin != second.origin else {
            throw UsageError("\(first.name) and \(second.name) contradict each other: give one of them.")
        }
        return first.origin < second.origin ? (first, nil) : (nil, second)
    }
}
