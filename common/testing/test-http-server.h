// An HTTP server on an address of this thread's network, which can stop and start again at its
// port. The test provides the service.
#pragma once

#include <arpa/inet.h>
#include <kj/async-io.h>
#include <kj/compat/http.h>
#include <kj/compat/tls.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include "common/testing/test-port.h"

namespace talos {

class TestHttpServer {
 public:
  struct Options {
    kj::StringPtr certificate = "", key = "";  // for https
    // Clients of https need a certificate signed by one of these; if the list is empty, clients
    // need none.
    kj::ArrayPtr<const kj::TlsCertificate> clientAuthorities;
    in_addr_t address = INADDR_LOOPBACK;
    uint16_t port = freePort();
  };
  // `table` and `service` must outlive this object.
  TestHttpServer(kj::AsyncIoContext& io, const kj::HttpHeaderTable& table, kj::HttpService& service,
                 Options options)
      : io(io), address(options.address), server(io.provider->getTimer(), table, service) {
    listening = listen(options.port);
    port = portOf(listening);
    if (options.certificate.size() > 0) {
      keypair.emplace(
          kj::TlsKeypair{kj::TlsPrivateKey(options.key), kj::TlsCertificate(options.certificate)});
      kj::TlsContext::Options with;
      with.defaultKeypair = KJ_ASSERT_NONNULL(keypair);
      with.trustedCertificates = options.clientAuthorities;
      with.verifyClients = options.clientAuthorities.size() > 0;
      tls.emplace(kj::mv(with));
    }
    start();
  }
  KJ_DISALLOW_COPY_AND_MOVE(TestHttpServer);

  uint16_t port = 0;
  unsigned connections = 0;

  // Closes the port and breaks connections.
  void stop() {
    serving = nullptr;
    receiver = nullptr;
    listening = nullptr;
  }
  void start() {
    if (listening == nullptr) listening = listen(port);
    receiver = io.lowLevelProvider->wrapListenSocketFd(listening.get(), 0);
    serving = accept();
  }
  // Breaks connections at the next turn of the loop; new ones are accepted.
  void breakConnections() {
    closing = kj::evalLater([this]() { serving = accept(); }).eagerlyEvaluate(nullptr);
  }

 private:
  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}  // the client closed the connection
  };
  kj::AsyncIoContext& io;
  in_addr_t address;
  Errors errors;
  kj::HttpServer server;
  kj::Maybe<kj::TlsKeypair> keypair;
  kj::Maybe<kj::TlsContext> tls;
  kj::AutoCloseFd listening;
  kj::Own<kj::ConnectionReceiver> receiver;
  kj::Promise<void> serving = nullptr, closing = nullptr;

  kj::AutoCloseFd listen(uint16_t at) {
    int raw, on = 1;
    KJ_SYSCALL(raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd fd(raw);
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port = htons(at);
    name.sin_addr.s_addr = htonl(address);
    KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name));
    KJ_SYSCALL(::listen(fd, 16));
    return fd;
  }

  kj::Promise<void> accept() {
    auto tasks = kj::heap<kj::TaskSet>(errors);
    auto& all = *tasks;
    return acceptInto(all).attach(kj::mv(tasks)).eagerlyEvaluate([](kj::Exception&&) {});
  }
  kj::Promise<void> acceptInto(kj::TaskSet& tasks) {
    for (;;) {
      auto stream = co_await receiver->accept();
      ++connections;
      KJ_IF_MAYBE (context, tls) {
        tasks.add(context->wrapServer(kj::mv(stream)).then([this](kj::Own<kj::AsyncIoStream> s) {
          return server.listenHttp(kj::mv(s));
        }));
      } else {
        tasks.add(server.listenHttp(kj::mv(stream)));
      }
    }
  }
};

}  // namespace talos
