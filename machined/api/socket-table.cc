#include "machined/api/socket-table.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/map.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "common/base/error.h"
#include "machined/api/machine-facts.h"
#include "machined/api/proc-text.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kProtocols[] = {"tcp"_kj,     "tcp6"_kj,     "udp"_kj, "udp6"_kj,
                                        "udplite"_kj, "udplite6"_kj, "raw"_kj, "raw6"_kj};
constexpr size_t kMostText = 16u << 20;  // limit for one file: some 100 000 sockets

// The states as include/net/tcp_states.h numbers them, from 1.
constexpr kj::StringPtr kTcpStates[] = {"ESTABLISHED"_kj, "SYN_SENT"_kj,   "SYN_RECV"_kj,
                                        "FIN_WAIT1"_kj,   "FIN_WAIT2"_kj,  "TIME_WAIT"_kj,
                                        "CLOSE"_kj,       "CLOSE_WAIT"_kj, "LAST_ACK"_kj,
                                        "LISTEN"_kj,      "CLOSING"_kj,    "NEW_SYN_RECV"_kj};
constexpr uint64_t kConnected = 1, kUnconnected = 7;

kj::Maybe<uint64_t> hexNumber(kj::ArrayPtr<const char> digits) {
  if (digits.size() == 0 || digits.size() > 16) return nullptr;
  uint64_t value = 0;
  for (char c : digits) {
    int digit = '0' <= c && c <= '9'   ? c - '0'
                : 'A' <= c && c <= 'F' ? c - 'A' + 10
                : 'a' <= c && c <= 'f' ? c - 'a' + 10
                                       : -1;
    if (digit < 0) return nullptr;
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  return value;
}

// The two parts of "a:b".
struct Halves {
  kj::ArrayPtr<const char> before, behind;
};
Halves halvesOf(kj::ArrayPtr<const char> field) {
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] == ':') return {field.slice(0, i), field.slice(i + 1, field.size())};
  }
  return {field, nullptr};
}

struct SocketName {
  kj::String address;
  uint16_t port;
};
// Parses "0100007F:1F90": 32-bit words in the byte order of this machine, then the port.
kj::Maybe<SocketName> socketName(kj::ArrayPtr<const char> field) {
  auto halves = halvesOf(field);
  auto port = KJ_UNWRAP_OR_RETURN(hexNumber(halves.behind), nullptr);
  auto digits = halves.before;
  if ((digits.size() != 8 && digits.size() != 32) || port > 0xffff) return nullptr;
  uint32_t fields[4];
  for (size_t i = 0; i < digits.size() / 8; ++i) {
    fields[i] = static_cast<uint32_t>(
        KJ_UNWRAP_OR_RETURN(hexNumber(digits.slice(i * 8, i * 8 + 8)), nullptr));
  }
  char text[INET6_ADDRSTRLEN];
  inet_ntop(digits.size() == 8 ? AF_INET : AF_INET6, fields, text, sizeof(text));
  return SocketName{kj::heapString(text), static_cast<uint16_t>(port)};
}

kj::StringPtr stateName(kj::StringPtr protocol, uint64_t state) {
  if (!protocol.startsWith("tcp") && state == kUnconnected) return "";
  if (!protocol.startsWith("tcp") && state != kConnected) return "";
  return 1 <= state && state <= kj::size(kTcpStates) ? kTcpStates[state - 1] : "UNKNOWN"_kj;
}

kj::Maybe<SocketFacts> parseSocket(kj::StringPtr protocol, kj::ArrayPtr<const char> line) {
  kj::ArrayPtr<const char> fields[10];
  for (auto& field : fields) field = nextField(line);
  auto local = KJ_UNWRAP_OR_RETURN(socketName(fields[1]), nullptr);
  auto remote = KJ_UNWRAP_OR_RETURN(socketName(fields[2]), nullptr);
  auto queues = halvesOf(fields[4]);
  SocketFacts fact;
  fact.protocol = kj::str(protocol);
  fact.localAddress = kj::mv(local.address), fact.localPort = local.port;
  fact.remoteAddress = kj::mv(remote.address), fact.remotePort = remote.port;
  fact.state = stateName(protocol, KJ_UNWRAP_OR_RETURN(hexNumber(fields[3]), nullptr));
  fact.sendQueue = KJ_UNWRAP_OR_RETURN(hexNumber(queues.before), nullptr);
  fact.receiveQueue = KJ_UNWRAP_OR_RETURN(hexNumber(queues.behind), nullptr);
  fact.uid = static_cast<uint32_t>(KJ_UNWRAP_OR_RETURN(parseNumber(fields[7]), nullptr));
  fact.inode = KJ_UNWRAP_OR_RETURN(parseNumber(fields[9]), nullptr);
  return kj::mv(fact);
}

// Returns nullptr if the file does not exist.
kj::Maybe<kj::String> contentOf(kj::StringPtr path) {
  int raw = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (raw < 0) return nullptr;
  kj::AutoCloseFd fd(raw);
  kj::Vector<char> content;
  char chunk[16384];
  while (content.size() < kMostText) {
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n <= 0) break;
    content.addAll(kj::arrayPtr(chunk, n));
  }
  return kj::heapString(content.begin(), content.size());
}

struct SocketOwner {
  int pid;
  kj::String program;
};
using SocketOwners = kj::HashMap<uint64_t, SocketOwner>;

// Parses "socket:[4711]".
kj::Maybe<uint64_t> socketInode(kj::StringPtr link) {
  if (!link.startsWith("socket:[") || !link.endsWith("]")) return nullptr;
  return parseNumber(link.asArray().slice(8, link.size() - 1));
}

void addOwner(kj::StringPtr proc, int pid, SocketOwners& owners) {
  auto folder = kj::str(proc, '/', pid, "/fd");
  DIR* directory = opendir(folder.cStr());
  if (directory == nullptr) return;  // it has exited
  KJ_DEFER(closedir(directory));
  kj::String program;
  while (auto* entry = readdir(directory)) {
    char target[64];
    ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof target);
    if (n <= 0 || n == sizeof target) continue;
    KJ_IF_MAYBE (inode, socketInode(kj::heapString(target, n))) {
      if (owners.find(*inode) != nullptr) continue;
      if (program == nullptr) {
        auto text = contentOf(kj::str(proc, '/', pid, "/comm")).orDefault(nullptr);
        program = kj::heapString(text.asArray().slice(0, text.findFirst('\n').orDefault(0)));
      }
      owners.insert(*inode, SocketOwner{pid, kj::str(program)});
    }
  }
}

// Process 1 and the socket holder also have the sockets on which their children listen, so they
// come last.
SocketOwners ownersOf(kj::StringPtr proc, int socketHolder) {
  auto pids = pidsOf(proc);
  auto place = [socketHolder](int pid) {
    return std::make_tuple(pid == 1, pid == socketHolder, pid);
  };
  std::sort(pids.begin(), pids.end(), [&](int a, int b) { return place(a) < place(b); });
  SocketOwners owners;
  for (int pid : pids) addOwner(proc, pid, owners);
  return owners;
}

}  // namespace

kj::Vector<SocketFacts> parseSockets(kj::StringPtr protocol, kj::ArrayPtr<const char> text) {
  kj::Vector<SocketFacts> result;
  kj::ArrayPtr<const char> line;
  while (nextLine(text, line)) {
    KJ_IF_MAYBE (fact, parseSocket(protocol, line)) result.add(kj::mv(*fact));
  }
  return result;
}

Sockets readSockets(kj::StringPtr proc, int process, int socketHolder, size_t most) {
  auto folder = process == 0 ? kj::str(proc, "/net") : kj::str(proc, '/', process, "/net");
  if (process != 0 && access(folder.cStr(), F_OK) < 0) {
    fail(ErrorKind::kNotFound, kj::str("there is no process ", process));
  }
  Sockets result;
  for (auto protocol : kProtocols) {
    KJ_IF_MAYBE (text, contentOf(kj::str(folder, '/', protocol))) {
      for (auto& socket : parseSockets(protocol, *text)) {
        if (result.sockets.size() < most) {
          result.sockets.add(kj::mv(socket));
        } else {
          ++result.leftOut;
        }
      }
    }
  }
  auto owners = ownersOf(proc, socketHolder);
  for (auto& socket : result.sockets) {
    if (socket.inode == 0) continue;
    KJ_IF_MAYBE (owner, owners.find(socket.inode)) {
      socket.pid = owner->pid;
      socket.program = kj::str(owner->program);
    }
  }
  return result;
}

}  // namespace talos::machined
