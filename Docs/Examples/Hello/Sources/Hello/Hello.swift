import APNSPool
import Foundation

@main
struct Hello {
    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 else {
            complain("usage: Hello DEVICE-TOKEN TEXT")
            exit(64)
        }
        do {
            var configuration = try APNSClientConfiguration(settings: [.environment()])
            configuration.logger.logLevel = .warning
            let status = try await withAPNSClient(configuration: configuration) { client in
                await send(arguments[2], to: arguments[1], with: client)
            }
            exit(status)
        } catch {
            // An error thrown by `main` would print a crash report.
            complain("\(error)")
            exit(78)
        }
    }
}

/// Sends one push and returns the exit status.
func send(_ text: String, to deviceToken: String, with sender: some PushSender) async -> Int32 {
    let notification = PushNotification(alert: Alert(title: text))
    let options = DeliveryOptions(deadline: .seconds(10))
    let outcome = await sender.deliver(notification, to: deviceToken, options: options)
    guard let error = outcome.error else { return 0 }
    complain("\(error)")
    if error.code == .configuration || error.advice == .fixCredential { return 78 }
    if outcome.certainty == .unknown { return 76 }
    return outcome.canResend ? 75 : 1
}

func complain(_ text: String) {
    FileHandle.standardError.write(Data("\(text)\n".utf8))
}
