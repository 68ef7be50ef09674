import Logging
import NIOCore
import SupervisedPool

@testable import APNSPool
@testable import APNSPoolTestSupport

/// The values of all properties of a configuration, by path. Reflection includes new properties automatically.
enum SettingsFields {
    /// Properties that a text cannot express or that are only for tests.
    static let codeOnly: Set<String> = [
        "eventLoopGroup", "tracer", "clock", "connectionSeed", "metricLabels", "wallClock",
        "groupInvalidTokens", "onCredential", "onWorkerTally", "tlsContexts", "tokenCaches",
        "adjustConnection", "silenceWarning",
    ]

    static func of(_ configuration: APNSClientConfiguration) -> [String: String] {
        var fields: [String: String] = [:]
        for child in Mirror(reflecting: configuration).children {
            guard let label = child.label else { continue }
            switch child.value {
            case let authentication as APNSAuthentication:
                let source = authentication.tokenSource as? SharedFileTokenSource
                fields["authentication.credential"] = "\(authentication.credential)"
                fields["authentication.tokenRefreshInterval"] = "\(authentication.tokenRefreshInterval)"
                fields["authentication.tokenSource"] = "\(source?.path ?? "none")"
                fields["authentication.fileCheckInterval"] = "\(authentication.fileCheckInterval, default: "never")"
            case let environment as APNSEnvironment:
                fields["environment.host"] = environment.host
                fields["environment.port"] = "\(environment.port)"
                fields["environment.managementHost"] = environment.managementHost
                fields["environment.managementPort"] = "\(environment.managementPort)"
            case let logger as Logger:
                fields["logger.logLevel"] = "\(logger.logLevel)"
            case is APNSClientConfiguration.Pool, is APNSClientConfiguration.Timeouts, is APNSClientConfiguration.Trust,
                is APNSClientConfiguration.Retry, is MassRejectionLimits:
                for part in Mirror(reflecting: child.value).children {
                    fields["\(label).\(part.label ?? "?")"] = "\(part.value)"
                }
            default:
                if label == "proxy" {
                    fields["proxy.host"] = configuration.proxy?.host ?? "none"
                    fields["proxy.port"] = configuration.proxy.map { "\($0.port)" } ?? "none"
                    fields["proxy.username"] = configuration.proxy?.username ?? "none"
                    fields["proxy.password"] = configuration.proxy?.password ?? "none"
                } else {
                    fields[label] = codeOnly.contains(label) ? "" : "\(child.value)"
                }
            }
        }
        return fields
    }

    /// The paths of the properties that differ.
    static func difference(_ first: APNSClientConfiguration, _ second: APNSClientConfiguration) -> Set<String> {
        let (first, second) = (of(first), of(second))
        return Set(first.keys).union(second.keys).filter { first[$0] != second[$0] }
    }
}

/// Copies of the types that hide their properties from reflection. A new property changes the size.
enum HiddenFields {
    struct Proxy {
        var host: String
        var port: Int
        var username: String?
        var password: String?
    }

    struct Authentication {
        let credential: APNSAuthentication.Credential
        var tokenRefreshInterval: Duration
        var tokenSource: (any ProviderTokenSource)?
        var fileCheckInterval: Duration?
    }
}
