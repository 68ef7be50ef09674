// Sends a push with the HTTP client of the JDK, to the simulator at APNS_ENDPOINT. Needs Java 17 or newer, and no
// packages. Its certificate authority must be in the trust store: without it, the simulator's page names the remedy.
//
//     keytool -importcert -noprompt -alias apns -file sim/ca.pem -keystore trust.p12 -storepass changeit
//     java -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit Push.java DEVICE_TOKEN

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

class Push {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("APNS_ENDPOINT") + "/3/device/" + arguments[0]))
            .header("apns-topic", "com.example.app").header("apns-push-type", "alert")
            .POST(HttpRequest.BodyPublishers.ofString("{\"aps\":{\"alert\":\"Hello\"}}")).build();
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build();
        var response = client.send(request, BodyHandlers.ofString());
        System.out.println(response.version() + " " + response.statusCode() + " " + response.body());
    }
}
