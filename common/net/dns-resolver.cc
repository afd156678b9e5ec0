#include "common/net/dns-resolver.h"

#include <ares.h>
#include <kj/debug.h>
#include <kj/map.h>
#include <kj/vector.h>
#include <poll.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "common/net/ip.h"

namespace talos {

namespace {

// One lookup. c-ares says which sockets it waits for, and how long; only run() calls c-ares. c-ares
// may close a socket, or finish, in the middle of a call.
class Lookup {
 public:
  Lookup(kj::UnixEventPort& port, kj::Timer& timer, kj::StringPtr host,
         const ResolverOptions& options)
      : port(port), timer(timer), host(kj::str(host)) {
    struct ares_options o = {};
    o.timeout = int(options.timeoutMs);
    o.tries = int(options.tries);
    o.sock_state_cb = &waitsFor;
    o.sock_state_cb_data = this;
    check(ares_init_options(&channel, &o,
                            ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB));
    if (options.servers.size() > 0) {
      int status = ares_set_servers_csv(channel, options.servers.cStr());
      if (status != ARES_SUCCESS) ares_destroy(channel);
      check(status);
    }
  }
  KJ_DISALLOW_COPY_AND_MOVE(Lookup);
  ~Lookup() noexcept(false) { ares_destroy(channel); }  // calls back, too

  kj::Promise<kj::Array<kj::String>> run() {
    struct ares_addrinfo_hints hints = {};
    hints.ai_family = AF_UNSPEC;
    ares_getaddrinfo(channel, host.cStr(), nullptr, &hints, &done, this);
    while (outcome == nullptr) {
      co_await somethingHappens();
      work();
    }
    if (found.empty()) kj::throwFatalException(failure(KJ_ASSERT_NONNULL(outcome)));
    co_return found.releaseAsArray();
  }

 private:
  struct Socket {
    kj::Own<kj::UnixEventPort::FdObserver> observer;
    bool reads, writes;
  };
  kj::UnixEventPort& port;
  kj::Timer& timer;
  kj::String host;
  kj::HashMap<int, Socket> sockets;  // that it has open
  kj::Maybe<int> outcome;            // once it is done
  kj::Vector<kj::String> found;
  ares_channel_t* channel = nullptr;

  void check(int status) {
    if (status != ARES_SUCCESS) kj::throwFatalException(failure(status));
  }
  kj::Exception failure(int status) {
    return error(ErrorKind::kUnavailable,
                 kj::str(messages::kCannotResolve, "\"", host, "\": ", ares_strerror(status)));
  }

  // Resolves at the next event. It must be armed before the sockets are examined: observers are
  // edge-triggered.
  kj::Promise<void> somethingHappens() {
    auto any = kj::Promise<void>(kj::NEVER_DONE);
    struct timeval time;
    if (ares_timeout(channel, nullptr, &time) != nullptr) {
      // One millisecond more: the rest is truncated to milliseconds, and there would be turns
      // without work.
      auto left = time.tv_sec * kj::SECONDS + time.tv_usec * kj::MICROSECONDS;
      any = timer.afterDelay(left + 1 * kj::MILLISECONDS);
    }
    for (auto& entry : sockets) {
      auto& observer = *entry.value.observer;
      if (entry.value.reads) any = any.exclusiveJoin(observer.whenBecomesReadable());
      if (entry.value.writes) any = any.exclusiveJoin(observer.whenBecomesWritable());
    }
    return ready().empty() ? kj::mv(any) : kj::Promise<void>(kj::READY_NOW);
  }

  kj::Vector<ares_fd_events_t> ready() {
    kj::Vector<struct pollfd> polled;
    for (auto& entry : sockets) {
      auto& wants = entry.value;
      polled.add(
          pollfd{entry.key, short((wants.reads ? POLLIN : 0) | (wants.writes ? POLLOUT : 0)), 0});
    }
    kj::Vector<ares_fd_events_t> events;
    if (::poll(polled.begin(), polled.size(), 0) <= 0) return events;
    for (auto& p : polled) {
      unsigned what = (p.revents & (POLLIN | POLLERR | POLLHUP) ? ARES_FD_EVENT_READ : 0u) |
                      (p.revents & POLLOUT ? ARES_FD_EVENT_WRITE : 0u);
      if (what != 0) events.add(ares_fd_events_t{p.fd, what});
    }
    return events;
  }
  void work() {
    auto events = ready();
    ares_process_fds(channel, events.begin(), events.size(), ARES_PROCESS_FLAG_NONE);
  }

  // Called by c-ares before it waits for something else on a socket, and before it closes the
  // socket.
  static void waitsFor(void* self, ares_socket_t fd, int reads, int writes) {
    auto& lookup = *static_cast<Lookup*>(self);
    if (!reads && !writes) {
      lookup.sockets.erase(fd);
      return;
    }
    auto& socket = lookup.sockets.findOrCreate(fd, [&]() {
      return kj::HashMap<int, Socket>::Entry{
          fd, Socket{kj::heap<kj::UnixEventPort::FdObserver>(
                         lookup.port, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ_WRITE),
                     false, false}};
    });
    socket.reads = reads != 0;
    socket.writes = writes != 0;
  }

  static void done(void* self, int status, int, struct ares_addrinfo* info) {
    auto& lookup = *static_cast<Lookup*>(self);
    auto& found = lookup.found;
    for (auto* n = info == nullptr ? nullptr : info->nodes; n != nullptr; n = n->ai_next) {
      auto name = kj::arrayPtr(reinterpret_cast<const kj::byte*>(n->ai_addr), n->ai_addrlen);
      KJ_IF_MAYBE (endpoint, Endpoint::fromBytes(name)) {
        auto text = endpoint->address.toString();
        if (std::find(found.begin(), found.end(), text) == found.end()) found.add(kj::mv(text));
      }
    }
    if (info != nullptr) ares_freeaddrinfo(info);
    lookup.outcome = status;
  }
};

}  // namespace

kj::Maybe<kj::String> asAddress(kj::StringPtr text) {
  bool bracketed = text.startsWith("[") && text.endsWith("]");
  auto bare = bracketed ? kj::str(text.slice(1, text.size() - 1)) : kj::str(text);
  KJ_IF_MAYBE (address, Ip::parse(bare)) {
    if (!bracketed || address->family() == AF_INET6) return kj::mv(bare);
  }
  return nullptr;
}

kj::Promise<kj::Array<kj::String>> resolve(kj::UnixEventPort& port, kj::Timer& timer,
                                           kj::StringPtr host, const ResolverOptions& options) {
  KJ_IF_MAYBE (address, asAddress(host)) {
    return kj::arr(kj::mv(*address));
  }
  return kj::evalNow([&]() {
    auto lookup = kj::heap<Lookup>(port, timer, host, options);
    auto addresses = lookup->run();
    return addresses.attach(kj::mv(lookup));
  });
}

}  // namespace talos
