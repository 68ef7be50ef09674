// Tests pushes against a simulator of APNs. Needs Go 1.19 or newer, and no modules.
//
//	APNS=<the tool apns> go test -count=1
package pushes

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	anna  = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"
	ben   = "80f1a52b7c93d046e8b2f71c5a0d94e63b17f8c25d60ae49f3127b8c6e05d1f4"
	topic = "com.example.app"
)

var (
	simulator *Simulator
	apns      *http.Client
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "apns")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	if simulator, err = StartSimulator(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer simulator.Stop()
	// With a TLS configuration of your own, HTTP/2 must be asked for.
	apns = &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: simulator.Roots},
			ForceAttemptHTTP2: true,
		},
	}
	return m.Run()
}

type payload = map[string]any

func alert(title string) payload {
	return payload{"aps": payload{"alert": payload{"title": title}}}
}

// send sends a push. It stands for your own application: replace it by yours.
func send(token string, content payload, headers map[string]string) (status int, body string, err error) {
	encoded, err := json.Marshal(content)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequest("POST", simulator.Endpoint+"/3/device/"+token, bytes.NewReader(encoded))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("apns-topic", topic)
	request.Header.Set("apns-push-type", "alert")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := apns.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// sendWithRetries sends until the response is not 503, at most 200 times.
func sendWithRetries(token string, content payload) (status int, err error) {
	for attempt := 1; attempt <= 200; attempt++ {
		status, _, err = send(token, content, nil)
		if err != nil || status != http.StatusServiceUnavailable {
			return status, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return status, err
}

// expectStatus sends a push and returns the body of the response.
func expectStatus(t *testing.T, expected int, token string, content payload, headers map[string]string) string {
	t.Helper()
	status, body, err := send(token, content, headers)
	if err != nil || status != expected {
		t.Fatalf("expected %d, not %d %s (%v)", expected, status, body, err)
	}
	return body
}

func reset(t *testing.T) {
	t.Helper()
	simulator.Call(t, "POST", "/v1/reset", nil, nil)
}

func TestPushArrivesWithHeadersAndPayload(t *testing.T) {
	reset(t)
	expectStatus(t, 200, anna, alert("Hello"), map[string]string{"apns-priority": "5"})

	push := simulator.WaitFor(t, 1, url.Values{"token": {anna}})[0]
	if push.Status != 200 || push.Headers["apns-priority"] != "5" {
		t.Error(push)
	}
	if push.Payload != `{"aps":{"alert":{"title":"Hello"}}}` {
		t.Error(push.Payload)
	}
}

func TestUnregisteredTokenIsRefused(t *testing.T) {
	reset(t)
	simulator.SetToken(t, ben, "unregistered", 1700000000123)
	body := expectStatus(t, 410, ben, alert("Hello"), nil)
	if body != `{"reason":"Unregistered","timestamp":1700000000123}` {
		t.Error(body)
	}
}

func TestSenderRetriesUntilAPNsIsAvailable(t *testing.T) {
	reset(t)
	simulator.Call(t, "POST", "/v1/faults", map[string]any{
		"when":   map[string]any{"always": true},
		"effect": map[string]any{"kind": "respond", "reason": "ServiceUnavailable"},
	}, nil)
	last := make(chan string, 1)
	go func() {
		status, err := sendWithRetries(anna, alert("Hello"))
		last <- fmt.Sprint(status, " ", err)
	}()
	simulator.WaitFor(t, 2, url.Values{"reason": {"ServiceUnavailable"}})
	simulator.Call(t, "DELETE", "/v1/faults", nil, nil)
	if result := <-last; result != "200 <nil>" {
		t.Error(result)
	}
	if accepted := simulator.Received(t, url.Values{"outcome": {"accepted"}}); len(accepted) != 1 {
		t.Error(accepted)
	}
}

func TestNewerPushReplacesTheOlderOneOnTheDevice(t *testing.T) {
	reset(t)
	expectStatus(t, 200, anna, alert("1:0"), map[string]string{"apns-collapse-id": "game"})
	expectStatus(t, 200, anna, alert("2:0"), map[string]string{"apns-collapse-id": "game"})
	notifications := simulator.Device(t, anna).Apps[0].Notifications
	if len(notifications) != 1 || notifications[0].Title != "2:0" || notifications[0].Replaced != 1 {
		t.Error(notifications)
	}
}

func TestLiveActivityChangesAndEnds(t *testing.T) {
	reset(t)
	activity := strings.Repeat("a2", 40)
	now := time.Now().Unix()
	push := func(event string, seconds int64, score string) {
		aps := payload{"event": event, "timestamp": now + seconds, "content-state": payload{"score": score}}
		expectStatus(t, 200, activity, payload{"aps": aps}, map[string]string{
			"apns-topic": topic + ".push-type.liveactivity", "apns-push-type": "liveactivity", "apns-priority": "10",
		})
	}
	push("update", 2, "1:0")
	push("update", 1, "0:0") // older than the last one: the device ignores it
	push("end", 3, "1:1")
	shown := simulator.Device(t, activity).Activities[0]
	if shown.State != "ended" || shown.ContentState["score"] != "1:1" || !shown.History[1].IsIgnored {
		t.Error(shown)
	}
}
