import SupervisedPool
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Creating a client with a setting out of its limits throws an error that names the setting.
struct ConfigurationTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var setting: String
        var change: @Sendable (inout APNSClientConfiguration) -> Void
        var testDescription: String { self.setting }
    }

    static let cases: [Case] = [
        Case(setting: "environment.host") { $0.environment = .custom(host: "") },
        Case(setting: "environment.host") { $0.environment = .custom(host: "a b") },
        Case(setting: "environment.host") { $0.environment = .custom(host: ".example.com") },
        Case(setting: "environment.port") { $0.environment = .custom(host: "localhost", port: 0) },
        Case(setting: "environment.port") { $0.environment = .custom(host: "localhost", port: 65_536) },
        Case(setting: "environment.managementHost") { $0.environment.managementHost = "a\nb" },
        Case(setting: "environment.managementPort") { $0.environment.managementPort = 0 },
        Case(setting: "defaultTopic") { $0.defaultTopic = "" },
        Case(setting: "defaultTopic") { $0.defaultTopic = "com.example.app\n" },
        Case(setting: "proxy.host") { $0.proxy = .init(host: "", port: 3128) },
        Case(setting: "proxy.host") { $0.proxy = .init(host: ".proxy", port: 3128) },
        Case(setting: "proxy.host") { $0.proxy = .init(host: "a\r\nb", port: 3128) },
        Case(setting: "proxy.port") { $0.proxy = .init(host: "proxy", port: 0) },
        Case(setting: "proxy.username") { $0.proxy = .init(host: "proxy", port: 1, username: "a:b") },
        Case(setting: "proxy.username") { $0.proxy = .init(host: "proxy", port: 1, username: "") },
        Case(setting: "proxy.password") { $0.proxy = .init(host: "proxy", port: 1, username: "a", password: "b\n") },
        Case(setting: "pool.size") { $0.pool.size = -1 },
        Case(setting: "pool.size") { $0.pool = .init(size: 0, maxOverflow: 0) },
        Case(setting: "pool.maxOverflow") { $0.pool.maxOverflow = 1001 },
        Case(setting: "pool.size + pool.maxOverflow") { $0.pool = .init(size: 600, maxOverflow: 600) },
        Case(setting: "pool.maxQueued") { $0.pool.maxQueued = 0 },
        Case(setting: "pool.maxQueuedBytes") { $0.pool.maxQueuedBytes = 10 },
        Case(setting: "pool.maxConcurrentStreams") { $0.pool.maxConcurrentStreams = 0 },
        Case(setting: "pool.maxConcurrentStreams") { $0.pool.maxConcurrentStreams = 1001 },
        Case(setting: "pool.idleTimeout") { $0.pool.idleTimeout = .zero },
        Case(setting: "pool.maximumLifetime") { $0.pool.maximumLifetime = .milliseconds(1) },
        Case(setting: "pool.connectSpacing") { $0.pool.connectSpacing = .seconds(-1) },
        Case(setting: "pool.unavailableAfter") { $0.pool.unavailableAfter = .zero },
        Case(setting: "timeouts.deadline") { $0.timeouts.deadline = .zero },
        Case(setting: "timeouts.response") { $0.timeouts.response = .seconds(-5) },
        Case(setting: "timeouts.connect") { $0.timeouts.connect = .seconds(100_000) },
        Case(setting: "timeouts.drain") { $0.timeouts.drain = .seconds(-1) },
        Case(setting: "retry.maxAttempts") { $0.retry.maxAttempts = 0 },
        Case(setting: "retry.maxAttempts") { $0.retry.maxAttempts = 6 },
    ]

    @Test(arguments: Self.cases) func aSettingOutOfItsLimitsIsNamed(_ test: Case) throws {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        test.change(&configuration)
        let error = #expect(throws: APNSConfigurationError.self) { try APNSClient(configuration: configuration) }
        #expect(error?.code == .outOfRange)
        #expect(error?.setting == test.setting)
        #expect(error?.message.contains(test.setting) == true)
    }

    @Test("Both of Apple's names of the development environment are known")
    func sandboxIsDevelopment() {
        let configuration = APNSClientConfiguration(authentication: .withoutToken, environment: .sandbox)
        #expect(configuration.environment == .development)
        #expect(APNSEnvironment.sandbox(port: 2197) == .development(port: 2197))
    }

    @Test func trustRootsThatCannotBeReadAreNamed() throws {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        configuration.trust.caFile = "/nowhere/ca.pem"
        var error = #expect(throws: APNSConfigurationError.self) { try APNSClient(configuration: configuration) }
        #expect(error?.code == .trustRootsUnusable)
        #expect(error?.setting == "trust.caFile")
        #expect(error?.message.contains("/nowhere/ca.pem") == true)

        configuration.trust = .init(caPEM: "no certificate")
        error = #expect(throws: APNSConfigurationError.self) { try APNSClient(configuration: configuration) }
        #expect(error?.code == .trustRootsUnusable)
        #expect(error?.setting == "trust.caPEM")
    }

    @Test("By default, 10,000 pushes and 16 MiB of payload may wait for a stream")
    func boundsOfTheQueue() {
        let pool = APNSClientConfiguration(authentication: .withoutToken).poolConfiguration
        #expect(pool.maxWaiters == 10_000)
        #expect(pool.maxQueuedBytes == 16 * 1024 * 1024)
    }

    @Test("The pool gets every setting of the client that concerns it")
    func settingsOfThePool() {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        configuration.pool = .init(
            size: 2,
            maxOverflow: 4,
            strategy: .fifo,
            maxQueued: 5,
            maxQueuedBytes: 8192,
            idleTimeout: .seconds(6),
            maximumLifetime: .seconds(7),
            connectSpacing: .seconds(8),
            unavailableAfter: .seconds(9),
            whenUnavailable: .wait
        )
        let pool = PoolConfiguration(
            size: 2,
            maxOverflow: 4,
            strategy: .fifo,
            maxWaiters: 5,
            maxQueuedBytes: 8192,
            connectSpacing: .seconds(8),
            idleTimeout: .seconds(6),
            unavailableAfter: .seconds(9),
            whenUnavailable: .wait,
            maximumLifetime: .seconds(7)
        )
        #expect(configuration.poolConfiguration == pool)
    }

    @Test func valuesAtTheLimitsAreAllowed() throws {
        var configuration = APNSClientConfiguration(authentication: .withoutToken)
        configuration.pool = .init(size: 0, maxOverflow: 1, connectSpacing: .zero)
        configuration.retry = .init(maxAttempts: 1)
        _ = try APNSClient(configuration: configuration)
    }
}
