package buckettest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// Proxy stands between a client and a server, and does harm.
type Proxy struct {
	Endpoint string
	Server   *httptest.Server

	mu    sync.Mutex
	fault Fault
}

// Fault answers a request, or has the server answer it.
type Fault func(w http.ResponseWriter, r *http.Request, server http.Handler)

// NewProxy starts a proxy without faults, over TLS or not. It ends with the test.
func NewProxy(t testing.TB, s *Server, tls bool) *Proxy {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	// The signature of a request is over the host that the client knows.
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	p := &Proxy{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault == nil {
			forward.ServeHTTP(w, r)
			return
		}
		fault(w, r, forward)
	})
	if p.Server = httptest.NewUnstartedServer(handler); tls {
		p.Server.StartTLS()
	} else {
		p.Server.Start()
	}
	t.Cleanup(p.Server.Close)
	p.Endpoint = p.Server.URL
	return p
}

// Set makes requests from now on go wrong; nil ends that.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Times makes the first n requests go wrong that match.
func Times(n int, match func(*http.Request) bool, f Fault) Fault {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		mu.Lock()
		now := n > 0 && match(r)
		if now {
			n--
		}
		mu.Unlock()
		if now {
			f(w, r, server)
			return
		}
		server.ServeHTTP(w, r)
	}
}

// Busy is a server that asks for patience.
func Busy(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>` + SecretKey +
		`</Message></Error>`))
}

// Gone is a server that closes connections without an answer.
func Gone(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// Lost has the server do what it is asked, and loses the answer.
func Lost(_ http.ResponseWriter, r *http.Request, server http.Handler) {
	server.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// Cut ends a body in the middle.
func Cut(w http.ResponseWriter, r *http.Request, server http.Handler) {
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	panic(http.ErrAbortHandler)
}

// OtherETag answers with an ETag that no object has.
func OtherETag(w http.ResponseWriter, r *http.Request, server http.Handler) {
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// Reads matches what asks for an object or a part of it.
func Reads(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("list-type") == ""
}

// Any matches all requests.
func Any(*http.Request) bool { return true }
