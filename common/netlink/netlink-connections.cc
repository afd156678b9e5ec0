#include "common/netlink/netlink-connections.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "common/base/error.h"
#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"
#include "common/netlink/netlink-socket.h"

namespace talos::netlink {

namespace {

// A second is long for a list that is in memory.
constexpr auto kDeadline = 1 * kj::SECONDS;
constexpr uint32_t kAllStates = (1u << (TCP_CLOSING + 1)) - 1;
constexpr uint32_t kOver = 1u << TCP_LISTEN | 1u << TCP_CLOSE | 1u << TCP_TIME_WAIT;
constexpr uint32_t kBegun = 1u << TCP_SYN_SENT | 1u << TCP_SYN_RECV;

kj::Array<kj::byte> request(uint16_t type, uint16_t flags, int family, const inet_diag_sockid& id,
                            uint32_t states = kAllStates & ~kOver) {
  MessageBuilder out(type, flags);
  auto& body = out.header<inet_diag_req_v2>();
  body.sdiag_family = family;
  body.sdiag_protocol = IPPROTO_TCP;
  body.idiag_ext = 1u << (INET_DIAG_INFO - 1);
  body.idiag_states = states;
  body.id = id;
  return out.finish();
}

Ip addressOf(int family, const uint32_t (&words)[4]) {
  auto bytes = kj::arrayPtr(reinterpret_cast<const kj::byte*>(words), family == AF_INET ? 4 : 16);
  return KJ_ASSERT_NONNULL(Ip::fromBytes(bytes)).unmapped();
}

struct Ports {
  uint16_t local = 0, remote = 0;  // 0: any
};

// Sends requests to end connections; returns how many of them were still open.
size_t end(Socket& socket, kj::StringPtr whose, kj::ArrayPtr<kj::Array<kj::byte>> requests) {
  size_t ended = 0;
  for (auto& ack : socket.transact(requests)) {
    if (ack.code == 0) ++ended;
    if (ack.code == 0 || ack.code == ENOENT) continue;  // it was over
    fail(ErrorKind::kFailedPrecondition,
         kj::str("end TCP connections of ", whose, ": ", strerror(ack.code)));
  }
  return ended;
}

// Ends the connections with one of these pairs of ports that `isMeant` names, and returns their
// number. `whose` is for errors.
template <typename F>
size_t endConnections(kj::StringPtr whose, std::initializer_list<Ports> ports, F&& isMeant) {
  Socket socket(NETLINK_SOCK_DIAG, kDeadline);
  kj::Vector<kj::Array<kj::byte>> ends;
  auto what = kj::str("list TCP connections of ", whose);
  for (int family : {AF_INET, AF_INET6}) {
    for (auto pair : ports) {
      for (auto& message :
           socket.dump(encodeConnectionDump(family, pair.local, pair.remote), what)) {
        KJ_IF_MAYBE (there, message.body.tryGet<Connection>()) {
          if (isMeant(*there)) ends.add(encodeConnectionEnd(*there));
        }
      }
    }
  }
  return end(socket, whose, ends);
}

}  // namespace

kj::Array<kj::byte> encodeConnectionDump(int family, uint16_t localPort, uint16_t remotePort) {
  inet_diag_sockid id = {};
  id.idiag_sport = htons(localPort);
  id.idiag_dport = htons(remotePort);
  return request(SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, family, id);
}

kj::Array<kj::byte> encodeConnectionEnd(const Connection& connection) {
  return request(SOCK_DESTROY, NLM_F_REQUEST | NLM_F_ACK, connection.family, connection.id);
}

kj::Maybe<Connection> decodeConnection(const nlmsghdr* message) {
  KJ_IF_MAYBE (header, fixedHeader<inet_diag_msg>(message)) {
    Connection result;
    result.family = header->idiag_family;
    if (result.family != AF_INET && result.family != AF_INET6) return nullptr;
    result.id = header->id;
    result.local = addressOf(result.family, header->id.idiag_src);
    result.remote = addressOf(result.family, header->id.idiag_dst);
    eachAttribute(message, sizeof(inet_diag_msg), [&](uint16_t type, const nlattr* attribute) {
      if (type != INET_DIAG_INFO) return;
      // The kernel's struct grows with its releases.
      auto info = payload(attribute);
      constexpr auto kAt = offsetof(tcp_info, tcpi_retransmits);
      if (info.size() > kAt) result.retransmissions = info[kAt];
    });
    return result;
  }
  return nullptr;
}

kj::Vector<Connection> connectionsTo(uint16_t port) {
  Socket socket(NETLINK_SOCK_DIAG, kDeadline);
  kj::Vector<Connection> connections;
  inet_diag_sockid id = {};
  id.idiag_sport = htons(port);
  auto what = kj::str("list TCP connections to port ", port);
  for (int family : {AF_INET, AF_INET6}) {
    auto dump = request(SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, family, id,
                        kAllStates & ~kOver & ~kBegun);
    for (auto& message : socket.dump(kj::mv(dump), what)) {
      KJ_IF_MAYBE (there, message.body.tryGet<Connection>()) connections.add(*there);
    }
  }
  return connections;
}

size_t endConnections(kj::ArrayPtr<const Connection> connections) {
  if (connections.size() == 0) return 0;
  Socket socket(NETLINK_SOCK_DIAG, kDeadline);
  auto requests = KJ_MAP(connection, connections) {
    return encodeConnectionEnd(connection);
  };
  return end(socket, "clients", requests);
}

size_t endConnectionsToItself(const Ip& address) {
  return endConnections(address.toString(), {{}}, [&](const Connection& there) {
    return there.local == address && there.remote == address;
  });
}

size_t endStalledConnections(uint16_t port) {
  return endConnections(kj::str("port ", port), {{.local = port}, {.remote = port}},
                        [](const Connection& there) { return there.retransmissions >= kStalled; });
}

}  // namespace talos::netlink
