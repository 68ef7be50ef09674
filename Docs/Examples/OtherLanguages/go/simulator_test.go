package pushes

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Simulator is a running `apns simulator`. Copy this file into your tests; Docs/Simulator.md lists the calls
// of its API.
type Simulator struct {
	Endpoint string
	Roots    *x509.CertPool
	control  string
	process  *exec.Cmd
}

// Push is a push that arrived, with the members that these tests need.
type Push struct {
	Order   int               `json:"order"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Payload string            `json:"payload"`
}

// Device is what a device shows, with the members that these tests need.
type Device struct {
	Apps []struct {
		Topic         string `json:"topic"`
		Notifications []struct {
			Title    string `json:"title"`
			Replaced int    `json:"replaced"`
		} `json:"notifications"`
	} `json:"apps"`
	Activities []struct {
		State        string            `json:"state"`
		ContentState map[string]string `json:"contentState"`
		History      []struct {
			IsIgnored bool `json:"isIgnored"`
		} `json:"history"`
	} `json:"activities"`
}

// StartSimulator starts a simulator on free ports, which writes its ca.pem to the folder. --without-token: pushes need
// no JWT.
func StartSimulator(folder string) (*Simulator, error) {
	tool := os.Getenv("APNS")
	if tool == "" {
		tool = "apns"
	}
	process := exec.Command(tool, "simulator", "--port", "0", "--control", "0", "--without-token",
		"--write-credentials", folder)
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	simulator := &Simulator{process: process, Roots: x509.NewCertPool()}
	// The last line of its greeting; the output ends early if the simulator cannot start.
	lines := bufio.NewScanner(output)
	const greeting = "The pushes appear at "
	for simulator.control == "" && lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, greeting) {
			simulator.control = strings.TrimSuffix(strings.TrimPrefix(line, greeting), "/")
		}
	}
	if simulator.control == "" {
		simulator.Stop()
		return nil, fmt.Errorf("apns simulator ended before it was ready")
	}
	var state struct {
		Endpoint string `json:"endpoint"`
	}
	if err := simulator.call("GET", "/v1/state", nil, &state); err != nil {
		simulator.Stop()
		return nil, err
	}
	simulator.Endpoint = state.Endpoint
	certificate, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil || !simulator.Roots.AppendCertsFromPEM(certificate) {
		simulator.Stop()
		return nil, fmt.Errorf("no certificate in ca.pem: %v", err)
	}
	return simulator, nil
}

// Stop ends the simulator.
func (s *Simulator) Stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait()
}

// Received returns the pushes that arrived, oldest first, at most 1000. Filters: token, topic, pushType, outcome, …
func (s *Simulator) Received(t *testing.T, filters url.Values) []Push {
	t.Helper()
	filters.Set("limit", "1000")
	return s.pushes(t, "/v1/pushes?"+filters.Encode())
}

// WaitFor returns the first pushes that match, as soon as there are enough. It fails the test after ten seconds.
func (s *Simulator) WaitFor(t *testing.T, count int, filters url.Values) []Push {
	t.Helper()
	filters.Set("count", fmt.Sprint(count))
	return s.pushes(t, "/v1/pushes/wait?"+filters.Encode())
}

// SetToken sets a state: active, unregistered, expired, other-environment, other-topic, busy.
func (s *Simulator) SetToken(t *testing.T, token, state string, sinceMilliseconds int64) {
	t.Helper()
	s.Call(t, "PUT", "/v1/tokens/"+token, map[string]any{"state": state, "sinceMilliseconds": sinceMilliseconds}, nil)
}

// Device returns what the device with this token shows now.
func (s *Simulator) Device(t *testing.T, token string) (device Device) {
	t.Helper()
	s.Call(t, "GET", "/v1/tokens/"+token+"/device", nil, &device)
	return device
}

// Call makes any call of the API, and fails the test if the simulator refuses it.
func (s *Simulator) Call(t *testing.T, method, path string, body, result any) {
	t.Helper()
	if err := s.call(method, path, body, result); err != nil {
		t.Fatal(err)
	}
}

func (s *Simulator) pushes(t *testing.T, path string) []Push {
	t.Helper()
	var page struct {
		Pushes []Push `json:"pushes"`
	}
	s.Call(t, "GET", path, nil, &page)
	for index, push := range page.Pushes {
		s.Call(t, "GET", fmt.Sprintf("/v1/pushes/%d", push.Order), nil, &page.Pushes[index])
	}
	return page.Pushes
}

func (s *Simulator) call(method, path string, body, result any) error {
	content := []byte{}
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, s.control+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	// A request that changes something needs the header.
	request.Header.Set("x-apns-simulator", "test")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	if result == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, result)
}
