// The users' lines "Configuring a Machine to Use the Proxy": a node whose containerd reaches a
// registry by way of an HTTP proxy and no other way. The host is a network namespace of this
// process; the proxy and Debian's docker-registry listen on its loopback.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <thread>

#include "common/tls/pki.h"
#include "tests/harness/cluster.h"
#include "tests/harness/registry.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr uint16_t kProxyPort = 3128, kRegistryPort = 5443;
// No name server knows it: only the proxy leads there.
constexpr const char* kRegistryName = "registry.documents.example";

sockaddr_in onLoopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A proxy that knows CONNECT alone, and leads each client to the registry. Each connection has a
// thread; all end with the object.
class ConnectProxy {
 public:
  ConnectProxy() {
    KJ_SYSCALL(pipe2(stop, O_CLOEXEC));
    KJ_SYSCALL(listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto address = onLoopback(kProxyPort);
    int one = 1;
    KJ_SYSCALL(setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    KJ_SYSCALL(bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address));
    KJ_SYSCALL(listen(listening, 64));
    acceptor = std::thread([this] { accept(); });
  }
  ~ConnectProxy() {
    close(stop[1]);  // every poll sees the end of the pipe
    acceptor.join();
    for (auto& worker : workers) worker.join();
    close(stop[0]);
    close(listening);
  }
  ConnectProxy(const ConnectProxy&) = delete;

  // The first lines of all requests so far.
  std::string requests() const {
    std::lock_guard lock(mutex);
    return asked;
  }

 private:
  int listening = -1, stop[2] = {-1, -1};
  mutable std::mutex mutex;
  std::string asked;
  std::thread acceptor;
  std::vector<std::thread> workers;

  bool readable(int fd) const {
    pollfd fds[2] = {{fd, POLLIN, 0}, {stop[0], POLLIN, 0}};
    return poll(fds, 2, -1) > 0 && fds[1].revents == 0;
  }
  void accept() {
    while (readable(listening)) {
      int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      workers.emplace_back([this, fd] {
        serve(fd);
        close(fd);
      });
    }
  }
  void serve(int client) {
    std::string head;
    while (!contains(head, "\r\n\r\n")) {
      char byte;  // not one more: what follows the head is not the proxy's
      if (!readable(client) || read(client, &byte, 1) != 1) return;
      head += byte;
    }
    {
      std::lock_guard lock(mutex);
      asked += head.substr(0, head.find("\r\n")) + "\n";
    }
    if (!head.starts_with("CONNECT ")) return;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto address = onLoopback(kRegistryPort);
    constexpr char kEstablished[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        send(client, kEstablished, sizeof kEstablished - 1, MSG_NOSIGNAL) > 0) {
      relay(client, server);
    }
    close(server);
  }
  void relay(int one, int other) {
    for (;;) {
      pollfd fds[3] = {{one, POLLIN, 0}, {other, POLLIN, 0}, {stop[0], POLLIN, 0}};
      if (poll(fds, 3, -1) < 0 || fds[2].revents != 0) return;
      for (int i : {0, 1}) {
        if (fds[i].revents == 0) continue;
        char bytes[16384];
        auto size = read(fds[i].fd, bytes, sizeof bytes);
        for (ssize_t sent = 0, n; sent < size; sent += n) {
          n = send(fds[1 - i].fd, bytes + sent, size_t(size - sent), MSG_NOSIGNAL);
          if (n <= 0) return;
        }
        if (size <= 0) return;
      }
    }
  }
};

struct Proxy : public harness::RegistryHost {
  ~Proxy() noexcept override {}

  std::string authority;  // in PEM; it signs the registry's certificate

  // A file with the certificate and the key of the registry.
  std::string certificateFile() {
    auto ca = pki::makeAuthority({.organization = "example", .keyType = pki::KeyType::kEcdsaP256});
    auto names = kj::heapArray<kj::String>(1);
    names[0] = kj::str(kRegistryName);
    auto addresses = kj::heapArray<kj::String>(1);
    addresses[0] = kj::str("127.0.0.1");
    auto pair = pki::issue(
        ca.certificate, ca.key,
        {.commonName = kRegistryName, .dnsNames = kj::mv(names), .addresses = kj::mv(addresses)});
    authority = ca.certificate.cStr();
    auto path = folder + "/registry.pem";
    std::ofstream(path) << pair.certificate.cStr() << kj::StringPtr(pair.key).cStr();
    return path;
  }
  // An image without content, under the name of a kubelet.
  void push() const {
    for (auto& words : std::vector<std::vector<std::string>>{
             {"umoci", "init", "--layout", folder + "/image"},
             {"umoci", "new", "--image", folder + "/image:made"},
             {"skopeo", "copy", "--dest-tls-verify=false", "oci:" + folder + "/image:made",
              "docker://127.0.0.1:" + std::to_string(kRegistryPort) + "/documents/kubelet:v1"}}) {
      auto done = harness::run(words, 60);
      ASSERT_EQ(done.status, 0) << words[0] << ": " << done.err;
    }
  }
  std::string configPatch() const {
    auto ca = kj::encodeBase64(kj::StringPtr(authority.c_str()).asBytes());
    return std::string("machine:\n  env:\n    http_proxy: http://10.5.0.1:3128\n") +
           "    https_proxy: http://10.5.0.1:3128\n    no_proxy: 10.5.0.0/24\n" +
           "  registries: {config: {" + kRegistryName + ": {tls: {ca: " + ca.cStr() + "}}}}\n" +
           "  kubelet: {image: '" + kRegistryName + "/documents/kubelet:v1'}\n";
  }
};

// Catches: variables that reach the services and not containerd; a name that the node resolves
// itself, although the proxy does; a node that looks for its own cluster by way of the proxy.
TEST_F(Proxy, ContainerdPullsByWayOfIt) {
  auto certificate = certificateFile();
  harness::Registry registry(folder, "127.0.0.1:" + std::to_string(kRegistryPort), "", certificate);
  ASSERT_NO_FATAL_FAILURE(push());
  ConnectProxy proxy;
  Cluster cluster("proxied",
                  {"--provisioner=container", "--workers", "1", "--config-patch", configPatch()});
  for (auto node : {"10.5.0.2", "10.5.0.3"}) {
    harness::Result images;
    EXPECT_TRUE(eventually(
        [&] {
          images = cluster.talosctl({"-n", node, "image", "list", "--namespace", "system"}, 30);
          return contains(images.out, std::string(kRegistryName) + "/documents/kubelet:v1");
        },
        120, 0.5))
        << node << ": " << images.out << images.err
        << cluster.talosctl({"-n", node, "service", "kubelet"}).out << proxy.requests();
  }
  EXPECT_TRUE(
      contains(proxy.requests(), std::string("CONNECT ") + kRegistryName + ":443 HTTP/1.1\n"))
      << proxy.requests();
  EXPECT_TRUE(registry.wasAsked("/v2/documents/kubelet/manifests/v1"));
  // The nodes find each other without it.
  EXPECT_FALSE(contains(proxy.requests(), "10.5.0.")) << proxy.requests();
}

}  // namespace
}  // namespace talos
