// A web server on a free port of loopback that does what a test says, in this process and on the
// test's clock.
#pragma once

#include <kj/async-io.h>
#include <kj/compat/tls.h>
#include <kj/debug.h>
#include <kj/timer.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <vector>

#include "common/testing/test-port.h"

namespace talos::machined {

class TestServer {
 public:
  // The server's behaviour on a connection once it has read the head of the request.
  using Behaviour = std::function<kj::Promise<void>(kj::AsyncIoStream&)>;

  TestServer(kj::AsyncIoContext& io, Behaviour behaviour, kj::Maybe<kj::TlsContext&> tls = nullptr,
             uint16_t port = freePort())
      : behaviour(behaviour),
        tls(tls),
        listener(io.lowLevelProvider->wrapListenSocketFd(listenAt(port))),
        accepting(accept().eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(ERROR, e); })) {}

  uint16_t port() { return static_cast<uint16_t>(listener->getPort()); }
  std::vector<std::string> asked;  // "GET /c HTTP/1.1"
  std::vector<std::string> heads;  // with the header lines
  std::vector<std::string> bodies;
  std::vector<uint16_t> ports;  // of the clients
  Behaviour behaviour;

 private:
  struct Quiet final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}  // the client closed the connection
  } quiet;
  kj::Maybe<kj::TlsContext&> tls;
  kj::Own<kj::ConnectionReceiver> listener;
  kj::TaskSet connections{quiet};
  kj::Promise<void> accepting;

  static kj::AutoCloseFd listenAt(uint16_t port) {
    int fd, one = 1;
    KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd owned(fd);
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
    struct sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KJ_SYSCALL(bind(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)));
    KJ_SYSCALL(listen(fd, 16));
    return owned;
  }

  kj::Promise<void> accept() {
    for (;;) {
      auto stream = co_await listener->accept();
      struct sockaddr_in peer = {};
      unsigned size = sizeof(peer);
      stream->getpeername(reinterpret_cast<struct sockaddr*>(&peer), &size);
      ports.push_back(ntohs(peer.sin_port));
      connections.add(serve(kj::mv(stream)));
    }
  }
  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream) {
    KJ_IF_MAYBE (context, tls) stream = co_await context->wrapServer(kj::mv(stream));
    std::string head;
    // A client that uses TLS is answered as well.
    while (head.find("\r\n\r\n") == std::string::npos && head[0] != 0x16) {
      char c;
      if (co_await stream->tryRead(&c, 1, 1) == 0) co_return;
      head += c;
    }
    asked.push_back(head.substr(0, head.find("\r\n")));
    heads.push_back(head);
    auto length = head.find("\r\nContent-Length: ");
    std::string body(length == std::string::npos ? 0 : std::stoul(head.substr(length + 18)), 0);
    if (body.size() > 0) co_await stream->read(body.data(), body.size());
    bodies.push_back(body);
    co_await behaviour(*stream);
  }
};

inline kj::Promise<void> sendAll(kj::AsyncIoStream& stream, std::string text) {
  co_await stream.write(text.data(), text.size());
}

// An answer with this status line, these header lines and this body.
inline TestServer::Behaviour answer(std::string status, std::string headers, std::string body) {
  auto text = "HTTP/1.1 " + status + "\r\n" + headers + "\r\n" + body;
  return [text](kj::AsyncIoStream& stream) { return sendAll(stream, text); };
}
inline TestServer::Behaviour ok(std::string body) {
  return answer("200 OK", "Content-Length: " + std::to_string(body.size()) + "\r\n", body);
}

}  // namespace talos::machined
