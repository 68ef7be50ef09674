/// Requests of homeservers.
enum MatrixRequests {
    /// The example of the specification.
    static let example = ##"""
        {
          "notification": {
            "event_id": "$3957tyerfgewrf384",
            "room_id": "!slw48wfj34rtnrf:example.com",
            "type": "m.room.message",
            "sender": "@exampleuser:matrix.org",
            "sender_display_name": "Major Tom",
            "room_name": "Mission Control",
            "room_alias": "#exampleroom:matrix.org",
            "prio": "high",
            "content": {"msgtype": "m.text", "body": "I'm floating in a most peculiar way."},
            "counts": {"unread": 2, "missed_calls": 1},
            "devices": [
              {
                "app_id": "org.matrix.matrixConsole.ios",
                "pushkey": "V2h5IG9uIGVhcnRoIGRpZCB5b3UgZGVjb2RlIHRoaXM/",
                "pushkey_ts": 12345678,
                "data": {},
                "tweaks": {"sound": "bing"}
              }
            ]
          }
        }
        """##

    /// A request with one device.
    ///
    /// - Parameters:
    ///   - members: members of the notification.
    ///   - device: more members of the device.
    static func request(_ members: String, device: String = "") -> String {
        let separator = members.isEmpty ? "" : ","
        return #"""
            {"notification":{\#(members)\#(separator)"devices":[{"app_id":"a","pushkey":"ab01"\#(device)}]}}
            """#
    }
}
