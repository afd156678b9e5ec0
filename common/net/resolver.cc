#include "common/net/resolver.h"

#include <ares.h>
#include <kj/debug.h>
#include <kj/vector.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/net/ip.h"

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
      auto name = kj::arrayPtr(reinterpret_cast<const kj::byte*>(n->ai_addr), n->ai_addrlen);
      KJ_IF_MAYBE (endpoint, Endpoint::fromBytes(name)) {
        auto text = endpoint->address.toString();
        if (std::find(found.begin(), found.end(), text) == found.end()) found.add(kj::mv(text));
      }
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
  bool bracketed = text.startsWith("[") && text.endsWith("]");
  auto bare = bracketed ? kj::str(text.slice(1, text.size() - 1)) : kj::str(text);
  KJ_IF_MAYBE (address, Ip::parse(bare)) {
    if (!bracketed || address->family() == AF_INET6) return kj::mv(bare);
  }
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
