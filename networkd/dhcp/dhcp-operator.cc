#include "networkd/dhcp/dhcp-operator.h"

#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"

namespace talos::networkd::dhcp {

namespace {
constexpr size_t kLargestFile = 16 << 10;
}

Operator::Operator(Surroundings around, kj::StringPtr protocol, kj::StringPtr file,
                   kj::StringPtr name, LinkState link, kj::Function<void()> changed)
    : around(around),
      name(kj::str(name)),
      state(kj::mv(link)),
      changed(kj::mv(changed)),
      protocol(kj::str(protocol)),
      path(kj::str(around.directory, '/', file, '-', name)) {}

kj::Promise<void> Operator::run() {
  for (;;) {
    auto next = woken.next();
    for (auto socket : sockets()) next = next.exclusiveJoin(socket->readable());
    bool more = drain();  // behind the promises, which tell of what comes after this
    KJ_IF_MAYBE (moment, deadline()) next = next.exclusiveJoin(around.timer.atTime(*moment));
    // By the timer, so that in a flood the rest of the program has its turn.
    if (more) next = around.timer.afterDelay(0 * kj::SECONDS);
    co_await next;
    timeout();
  }
}

void Operator::failed(kj::String why) {
  if (why.size() > 0 && why != lastFailure)
    log::warn(kj::str(protocol, " failed; retrying"), {{"link", name}, {"error", why}});
  lastFailure = kj::mv(why);
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

void Operator::writeFile(Bytes lease) {
  attempt("cannot write the lease file", [&] { writeFileAtomically(path, lease.asChars(), 0600); });
}

void Operator::removeFile() {
  ::unlink(path.cStr());
}

void Operator::leaseEnds(kj::StringPtr why) {
  log::warn(kj::str("lease lost: ", why), {{"link", name}});
  removeFile();
}

}  // namespace talos::networkd::dhcp
