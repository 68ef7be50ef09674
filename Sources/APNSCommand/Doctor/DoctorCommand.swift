import APNSPool
import ArgumentParser

/// `apns doctor`
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Finds out, step by step, why pushes fail.",
        discussion: """
            Checks the settings and their sources, the key or certificate, the proxy, the server's name, TCP, TLS and \
            its certificates, HTTP/2 and this machine's clock. Then it sends one background push to a device token \
            that cannot exist: the response BadDeviceToken means that APNs accepts the key and did not refuse the topic. \
            Each step that fails says what to do.

            Give the same options, variables and file as for the other commands:

              apns doctor --key AuthKey_9UC9ZLQ8YW.p8 --team-id ABBM6U9RM5 \\
                --topic com.grasscove.Fern

            Print the failed steps as JSON:

              apns doctor --json | jq '.steps[] | select(.state == "failed")'

            Exit status:
              0   all is well, perhaps with warnings
              64  an option is wrong
              69  the server cannot be reached: name, proxy, network
              75  APNs reports that it is overloaded; try again later
              78  the configuration is wrong: key, certificate, host, topic, clock
            """
    )

    @Flag(help: "Print one JSON object.")
    var json = false

    @OptionGroup(title: "Connection") var common: CommonOptions

    func run() async throws {
        let options = try self.common.resolved()
        var doctor = Doctor(options)
        let report = await doctor.examine()
        let hasColor = Standard.output.isTerminal && StatusLine.shared.hasColor
        Standard.output.print(self.json ? report.json : report.text(hasColor: hasColor))
        if !report.isOK { throw report.status }
    }
}
