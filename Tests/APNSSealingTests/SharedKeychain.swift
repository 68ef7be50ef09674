#if Sealing
    import Foundation
    import Synchronization

    /// Replaces the Keychain in the documented examples. Each test has its own.
    enum SharedKeychain {
        @TaskLocal static var items = Items()

        final class Items: Sendable {
            private let bytes = Mutex<[String: Data]>([:])

            func data(_ name: String) -> Data { bytes.withLock { $0[name] ?? Data() } }
            func replace(_ name: String, with data: Data) { bytes.withLock { $0[name] = data } }
        }

        static func data(_ name: String = "") throws -> Data { items.data(name) }
        static func replace(_ name: String = "", with data: Data) throws { items.replace(name, with: data) }
    }

    #if !canImport(UserNotifications)
        // The part of Apple's framework that the documented extension uses, so that it compiles and runs here too.

        class UNNotificationContent {
            fileprivate(set) var title = ""
            fileprivate(set) var body = ""
            fileprivate(set) var userInfo: [AnyHashable: Any] = [:]

            func mutableCopy() -> Any {
                let copy = UNMutableNotificationContent()
                copy.title = title
                copy.body = body
                copy.userInfo = userInfo
                return copy
            }
        }

        final class UNMutableNotificationContent: UNNotificationContent {
            override var title: String {
                get { super.title }
                set { super.title = newValue }
            }
            override var body: String {
                get { super.body }
                set { super.body = newValue }
            }
        }

        final class UNNotificationRequest {
            let content: UNNotificationContent

            init(title: String, body: String, userInfo: [AnyHashable: Any]) {
                content = UNNotificationContent()
                content.title = title
                content.body = body
                content.userInfo = userInfo
            }
        }

        class UNNotificationServiceExtension {
            func didReceive(
                _ request: UNNotificationRequest,
                withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
            ) {
                contentHandler(request.content)
            }

            func serviceExtensionTimeWillExpire() {}
        }
    #endif
#endif
