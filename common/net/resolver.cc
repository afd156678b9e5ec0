#include "common/net/resolver.h"

#include <ares.h>
#include <arpa/inet.h>
#include <kj/debug.h>
#include <kj/vector.h>

#include "common/base/error.h"

namespace talos {

namespace {

// One lookup. c-ares works in a thread of its own and hands the result over; the destructor ends
// the thread before it frees what the thread uses.
class Lookup {
 public:
  Lookup(kj::StringPtr host, const ResolverOptions& options,
         kj::Own<kj::CrossThreadPromiseFulfiller<kj::Array<kj::String>>> fulfiller)
      : host(kj::str(host)), options(options), fulfiller(kj::mv(fulfiller)) {}
  KJ_DISALLOW_COPY_AND_MOVE(Lookup);
  ~Lookup() noexcept(false) {
    if (channel != nullptr) ares_destroy(channel);
  }

  void start() {
    struct ares_options o = {};
    o.evsys = ARES_EVSYS_DEFAULT;
    o.timeout = int(options.timeoutMs);
    o.tries = int(options.tries);
    check(ares_init_options(&channel, &o,
                            ARES_OPT_EVENT_THREAD | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES));
    if (options.servers.size() > 0) check(ares_set_servers_csv(channel, options.servers.cStr()));
    struct ares_addrinfo_hints hints = {};
    hints.ai_family = AF_UNSPEC;
    ares_getaddrinfo(channel, host.cStr(), nullptr, &hints, &done, this);
  }

 private:
  kj::String host;
  const ResolverOptions& options;  // until start() is over
  kj::Own<kj::CrossThreadPromiseFulfiller<kj::Array<kj::String>>> fulfiller;
  ares_channel_t* channel = nullptr;

  void check(int status) {
    if (status != ARES_SUCCESS) kj::throwFatalException(failure(status));
  }
  kj::Exception failure(int status) {
    return error(ErrorKind::kUnavailable,
                 kj::str("cannot resolve \"", host, "\": ", ares_strerror(status)));
  }

  // On the thread of c-ares.
  static void done(void* self, int status, int, struct ares_addrinfo* info) {
    auto& lookup = *static_cast<Lookup*>(self);
    kj::Vector<kj::String> found;
    for (auto* n = info == nullptr ? nullptr : info->nodes; n != nullptr; n = n->ai_next) {
      const void* raw =
          n->ai_family == AF_INET
              ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(n->ai_addr)->sin_addr)
              : &reinterpret_cast<sockaddr_in6*>(n->ai_addr)->sin6_addr;
      char text[INET6_ADDRSTRLEN];
      if (inet_ntop(n->ai_family, raw, text, sizeof(text)) == nullptr) continue;
      bool known = false;
      for (auto& f : found) known = known || f == text;
      if (!known) found.add(kj::str(text));
    }
    if (info != nullptr) ares_freeaddrinfo(info);
    if (status == ARES_EDESTRUCTION) return;  // nobody waits any more
    if (found.empty()) {
      lookup.fulfiller->reject(lookup.failure(status));
    } else {
      lookup.fulfiller->fulfill(found.releaseAsArray());
    }
  }
};

}  // namespace

kj::Maybe<kj::String> asAddress(kj::StringPtr text) {
  auto bare = text.size() > 2 && text[0] == '[' && text[text.size() - 1] == ']'
                  ? kj::heapString(text.slice(1, text.size() - 1))
                  : kj::str(text);
  char raw[sizeof(struct in6_addr)];
  bool bracketed = bare.size() != text.size();
  if (!bracketed && inet_pton(AF_INET, bare.cStr(), raw) == 1) return kj::mv(bare);
  if (inet_pton(AF_INET6, bare.cStr(), raw) == 1) return kj::mv(bare);
  return nullptr;
}

kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host, const ResolverOptions& options) {
  KJ_IF_MAYBE (address, asAddress(host)) {
    return kj::arr(kj::mv(*address));
  }
  auto paf = kj::newPromiseAndCrossThreadFulfiller<kj::Array<kj::String>>();
  auto lookup = kj::heap<Lookup>(host, options, kj::mv(paf.fulfiller));
  auto failure = kj::runCatchingExceptions([&] { lookup->start(); });
  KJ_IF_MAYBE (e, failure) return kj::mv(*e);
  return paf.promise.attach(kj::mv(lookup));
}

}  // namespace talos
