#include "networkd/dhcp/dhcp-operator.h"

#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"

namespace talos::networkd::dhcp {

namespace {
constexpr size_t kLargestFile = 16 << 10;
}

Operator::Operator(Dependencies deps, kj::StringPtr protocol, kj::StringPtr file,
                   kj::StringPtr name, LinkState link, kj::Function<void()> changed)
    : deps(deps),
      name(kj::str(name)),
      state(kj::mv(link)),
      changed(kj::mv(changed)),
      protocol(kj::str(protocol)),
      path(kj::str(deps.directory, '/', file, '-', name)) {}

kj::Promise<void> Operator::run() {
  for (;;) {
    auto next = woken.next();
    for (auto socket : sockets()) next = next.exclusiveJoin(socket->readable());
    bool more = drain();  // after the promises, which report packets that arrive after this call
    KJ_IF_MAYBE (moment, deadline()) next = next.exclusiveJoin(deps.timer.atTime(*moment));
    // The timer continues, so that the rest of the program has its turn in a flood.
    if (more) next = deps.timer.afterDelay(0 * kj::SECONDS);
    co_await next;
    timeout();
  }
}

void Operator::open(kj::Maybe<kj::Own<Listener>>& socket,
                    kj::FunctionParam<kj::AutoCloseFd()> opener) {
  if (socket != nullptr) return;
  attempt("cannot open the socket", [&] { socket = kj::heap<Listener>(deps.port, opener()); });
}

void Operator::report(LeaseState now) {
  lastReported = now;
  wake();
  changed();
}

void Operator::failed(kj::String error) {
  if (error.size() > 0 && error != lastFailure)
    log::warn(kj::str(protocol, " failed; retrying"), {{"link", name}, {"error", error}});
  lastFailure = kj::mv(error);
}

kj::Array<kj::byte> Operator::readFile() {
  kj::Array<kj::byte> content;
  auto failure = kj::runCatchingExceptions([&] {
    KJ_IF_MAYBE (there, tryReadFile(path, kLargestFile)) content = copyOf(there->asBytes());
  });
  KJ_IF_MAYBE (e, failure) {
    log::warn("cannot read the lease file",
              {{"link", name}, {"file", path}, {"error", messageOf(*e)}});
  }
  return content;
}

void Operator::obtained(Bytes file) {
  KJ_IF_MAYBE (there, lease()) {
    KJ_IF_MAYBE (prefix, there->prefix) {
      log::info("lease obtained", {{"link", name},
                                   {"address", prefix->address},
                                   {"server", there->serverName},
                                   {"seconds", there->seconds}});
      attempt("cannot write the lease file",
              [&] { writeFileAtomically(path, file.asChars(), 0600); });
    }
  }
}

void Operator::removeFile() {
  ::unlink(path.cStr());
}

void Operator::lost(kj::StringPtr cause) {
  log::warn(kj::str("lease lost: ", cause), {{"link", name}});
  removeFile();
}

}  // namespace talos::networkd::dhcp
