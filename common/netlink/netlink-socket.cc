#include "common/netlink/netlink-socket.h"

#include <errno.h>
#include <kj/debug.h>
#include <linux/netlink.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::netlink {

namespace {

constexpr size_t kReceive = 64 << 10;  // the kernel fills at most 32 KiB of a dump at once
constexpr int kSocketBuffer = 1 << 20;
// The error messages for one write must fit in the socket's receive buffer (about 1 KiB each), and
// the write itself in the send buffer.
constexpr size_t kMaxPerWrite = 128, kMaxBytesPerWrite = 64 << 10;
constexpr unsigned kMaxInterruptions = 20;

void setOption(int fd, int level, int option, int value) {
  // Improvements only: an older kernel that lacks one still works.
  setsockopt(fd, level, option, &value, sizeof(value));
}

Format formatOf(int protocol) {
  if (protocol == NETLINK_GENERIC || protocol == NETLINK_NETFILTER) return Format::kGeneric;
  return protocol == NETLINK_SOCK_DIAG ? Format::kSockets : Format::kRoute;
}

}  // namespace

kj::AutoCloseFd openSocket(int protocol, uint32_t groups) {
  int flags = SOCK_RAW | SOCK_CLOEXEC | (groups != 0 ? SOCK_NONBLOCK : 0);
  int raw;
  KJ_SYSCALL(raw = ::socket(AF_NETLINK, flags, protocol), "netlink socket", protocol);
  kj::AutoCloseFd fd(raw);
  setOption(fd, SOL_NETLINK, NETLINK_EXT_ACK, 1);
  setOption(fd, SOL_NETLINK, NETLINK_CAP_ACK, 1);
  setOption(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
  setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBuffer);
  sockaddr_nl local{};
  local.nl_family = AF_NETLINK;
  local.nl_groups = groups;
  KJ_SYSCALL(::bind(fd, reinterpret_cast<sockaddr*>(&local), sizeof(local)), "bind netlink socket");
  return fd;
}

void setGroups(int fd, uint32_t groups) {
  sockaddr_nl local{};
  socklen_t size = sizeof(local);
  KJ_SYSCALL(::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size));
  local.nl_groups = groups;
  KJ_SYSCALL(::bind(fd, reinterpret_cast<sockaddr*>(&local), sizeof(local)),
             "choose the groups of a netlink socket");
}

Received receiveFrom(int fd, kj::ArrayPtr<uint64_t> buffer,
                     kj::ArrayPtr<const kj::byte>& datagram) {
  sockaddr_nl sender{};
  iovec part{buffer.begin(), buffer.asBytes().size()};
  msghdr message{};
  message.msg_name = &sender;
  message.msg_namelen = sizeof(sender);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t size;
  do {
    size = ::recvmsg(fd, &message, MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Received::kNothing;
    if (errno == ENOBUFS) return Received::kOverrun;
    KJ_FAIL_SYSCALL("recvmsg(netlink)", errno);
  }
  if (sender.nl_pid != 0) return Received::kForeign;
  if (message.msg_flags & MSG_TRUNC) return Received::kOverrun;
  datagram = kj::arrayPtr(reinterpret_cast<const kj::byte*>(buffer.begin()), size);
  return Received::kMessage;
}

Socket::Socket(int protocol, kj::Duration deadline)
    : protocol(protocol),
      deadline(deadline),
      buffer(kj::heapArray<uint64_t>(kReceive / sizeof(uint64_t))) {
  ensureOpen();
}

Socket::~Socket() noexcept(false) = default;

void Socket::ensureOpen() {
  if (fd == nullptr) fd = openSocket(protocol, 0);
}

void Socket::send(kj::ArrayPtr<const kj::byte> bytes) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  ssize_t sent;
  KJ_SYSCALL(sent = ::sendto(fd, bytes.begin(), bytes.size(), 0,
                             reinterpret_cast<sockaddr*>(&kernel), sizeof(kernel)),
             "send to the kernel's network configuration");
  KJ_ASSERT(sent == static_cast<ssize_t>(bytes.size()));
}

bool Socket::receive(kj::TimePoint until, kj::StringPtr what,
                     kj::FunctionParam<void(Message&&)> handle) {
  auto format = formatOf(protocol);
  for (;;) {
    kj::ArrayPtr<const kj::byte> datagram;
    switch (receiveFrom(fd, buffer, datagram)) {
      case Received::kMessage:
        eachMessage(datagram, format, handle);
        return true;
      case Received::kForeign:
        continue;
      case Received::kOverrun:
        return false;
      case Received::kNothing:
        break;
    }
    auto left = until - kj::systemPreciseMonotonicClock().now();
    pollfd wait{fd, POLLIN, 0};
    int ready = left <= 0 * kj::SECONDS ? 0 : ::poll(&wait, 1, left / kj::MILLISECONDS + 1);
    if (ready == 0) {
      fd = nullptr;  // a late answer must not be taken for that of the next request
      fail(ErrorKind::kUnavailable, kj::str("no answer from the kernel to \"", what, "\" within ",
                                            deadline / kj::MILLISECONDS, " ms"));
    }
  }
}

kj::Vector<Ack> Socket::transact(kj::ArrayPtr<kj::Array<kj::byte>> requests) {
  kj::Vector<Ack> results(requests.size());
  while (requests.size() > 0) {
    size_t count = 1, bytes = requests[0].size();
    while (count < kj::min(requests.size(), kMaxPerWrite) &&
           bytes + requests[count].size() <= kMaxBytesPerWrite) {
      bytes += requests[count++].size();
    }
    transactSome(requests.slice(0, count), results);
    requests = requests.slice(count, requests.size());
  }
  return results;
}

kj::Vector<Ack> Socket::transactAtOnce(kj::ArrayPtr<kj::Array<kj::byte>> requests) {
  size_t bytes = kSocketBuffer;
  for (auto& request : requests) bytes += request.size();
  ensureOpen();
  setOption(fd, SOL_SOCKET, SO_SNDBUFFORCE, static_cast<int>(bytes));
  kj::Vector<Ack> results(requests.size());
  if (requests.size() > 0) transactSome(requests, results);
  return results;
}

void Socket::transactSome(kj::ArrayPtr<kj::Array<kj::byte>> requests, kj::Vector<Ack>& results) {
  ensureOpen();
  uint32_t first = sequence + 1;
  kj::Vector<kj::byte> bytes;
  for (auto& request : requests) {
    KJ_REQUIRE(request.size() >= sizeof(nlmsghdr));
    auto header = reinterpret_cast<nlmsghdr*>(request.begin());
    header->nlmsg_seq = ++sequence;
    if (&request != &requests.back()) header->nlmsg_flags &= ~NLM_F_ACK;
    bytes.addAll(request);
  }
  KJ_DEFER(if (protocol == NETLINK_GENERIC) explicit_bzero(bytes.begin(), bytes.size()));
  auto until = kj::systemPreciseMonotonicClock().now() + deadline;
  send(bytes);

  auto answers = kj::heapArray<kj::Maybe<Ack>>(requests.size());
  auto& last = answers[answers.size() - 1];
  while (last == nullptr) {
    bool whole = receive(until, "change the network configuration", [&](Message&& message) {
      uint32_t place = message.sequence - first;
      if (place >= answers.size() || answers[place] != nullptr) return;
      KJ_IF_MAYBE (ack, message.body.tryGet<Ack>()) answers[place] = kj::mv(*ack);
    });
    if (whole) continue;
    fd = nullptr;
    break;
  }
  bool allDone = last != nullptr;
  for (auto& answer : answers) {
    KJ_IF_MAYBE (ack, answer) {
      results.add(kj::mv(*ack));
    } else if (allDone) {
      results.add(Ack{});
    } else {
      results.add(
          Ack{ENOBUFS, kj::str("the kernel's answer was lost; read the configuration again")});
    }
  }
}

void Socket::wipe() {
  explicit_bzero(buffer.begin(), buffer.asBytes().size());
}

kj::Vector<Message> Socket::dump(kj::Array<kj::byte> request, kj::StringPtr what) {
  kj::Vector<Message> all;
  dump(
      kj::mv(request), what, [&] { all.clear(); },
      [&](Message&& message) { all.add(kj::mv(message)); });
  return all;
}

void Socket::dump(kj::Array<kj::byte> request, kj::StringPtr what, kj::FunctionParam<void()> again,
                  kj::FunctionParam<void(Message&&)> each) {
  auto ack = tryDump(kj::mv(request), what, again, each);
  if (ack.code == 0) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str(what, ": ", ack.message, ack.message.size() > 0 ? " (" : "", strerror(ack.code),
               ack.message.size() > 0 ? ")" : ""));
}

Ack Socket::tryDump(kj::Array<kj::byte> request, kj::StringPtr what,
                    kj::FunctionParam<void()> again, kj::FunctionParam<void(Message&&)> each) {
  auto until = kj::systemPreciseMonotonicClock().now() + deadline;
  for (unsigned attempt = 0; attempt < kMaxInterruptions; ++attempt) {
    if (attempt > 0) again();
    ensureOpen();
    reinterpret_cast<nlmsghdr*>(request.begin())->nlmsg_seq = ++sequence;
    send(request);
    bool interrupted = false, done = false;
    Ack refusal;
    auto handle = [&](Message&& message) {
      if (message.sequence != sequence || done) return;
      interrupted = interrupted || (message.flags & NLM_F_DUMP_INTR) != 0;
      KJ_IF_MAYBE (end, message.body.tryGet<Done>()) {
        if (end->code != 0 && end->code != EINTR) {
          fail(ErrorKind::kInternal,
               kj::str(what, ": ", end->message, " (", strerror(end->code), ")"));
        }
        interrupted = interrupted || end->code == EINTR;
        done = true;
      } else KJ_IF_MAYBE (ack, message.body.tryGet<Ack>()) {
        refusal = kj::mv(*ack);
        done = true;
      } else {
        each(kj::mv(message));
      }
    };
    while (!done) {
      if (receive(until, what, handle)) continue;
      fd = nullptr;  // part of the list was lost
      interrupted = true;
      done = true;
    }
    if (!interrupted || refusal.code != 0) return refusal;
  }
  fail(ErrorKind::kUnavailable,
       kj::str(what, ": the list changed during each of ", kMaxInterruptions, " readings"));
}

}  // namespace talos::netlink
