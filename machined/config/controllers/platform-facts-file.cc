#include "machined/config/controllers/platform-facts-file.h"

#include <capnp/serialize.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser-client/parser-messages.h"

namespace talos::machined {
namespace {

// The size of the message and its segment table.
constexpr size_t kMostFile = kMostFactsBytes + 4096;

KnownFacts factsIn(kj::ArrayPtr<const char> content) {
  auto words = kj::heapArray<capnp::word>(content.size() / sizeof(capnp::word));
  memcpy(words.begin(), content.begin(), words.asBytes().size());
  capnp::FlatArrayMessageReader message(words);
  return checkedFacts(message.getRoot<rpc::PlatformFacts>());
}

// Returns no facts if there is no file, or no valid one. Blocking.
KnownFacts readFile(kj::StringPtr path, kj::StringPtr platform) {
  KnownFacts facts;
  auto failure = kj::runCatchingExceptions([&] {
    KJ_IF_MAYBE (content, tryReadFile(path, kMostFile)) facts = factsIn(*content);
  });
  KJ_IF_MAYBE (e, failure) {
    log::warn("the facts of the platform from an earlier boot are damaged; ignored",
              {{"file", path}, {"error", messageOf(*e)}});
    return KnownFacts();
  }
  if (!facts.exist() || facts.get().getMetadata().getPlatform() == platform) return facts;
  log::warn("the facts of an earlier boot are another platform's; ignored",
            {{"file", path}, {"platform", facts.get().getMetadata().getPlatform()}});
  return KnownFacts();
}

kj::Array<char> fileOf(const KnownFacts& facts, kj::StringPtr platform) {
  capnp::MallocMessageBuilder message;
  message.setRoot(facts.get());
  message.getRoot<rpc::PlatformFacts>().getMetadata().setPlatform(platform);
  return kj::heapArray(capnp::messageToFlatArray(message).asPtr().asChars());
}

void writeIfChanged(kj::StringPtr path, kj::ArrayPtr<const char> content) {
  KJ_IF_MAYBE (old, tryReadFile(path, kMostFile)) {
    if (old->asArray() == content) return;
  }
  writeFileAtomically(path, content, 0600);
}

}  // namespace

PlatformFactsFile::PlatformFactsFile(UvLoop& uv, kj::StringPtr platform,
                                     kj::Function<bool()> mounted, kj::StringPtr path)
    : uv(uv), platform(platform), mounted(kj::mv(mounted)), path(kj::str(path)) {
  auto paf = kj::newPromiseAndFulfiller<KnownFacts>();
  came = kj::mv(paf.fulfiller);
  coming = kj::mv(paf.promise);
}

kj::Promise<void> PlatformFactsFile::stateMayBeMounted() {
  if (!mounted()) co_return;
  if (came->isWaiting()) {
    came->fulfill(co_await uv.blocking([path = kj::str(path), platform = kj::str(platform)]() {
      return readFile(path, platform);
    }));
  }
  co_await write();
}

kj::Promise<void> PlatformFactsFile::keep(KnownFacts facts) {
  wanted = kj::mv(facts);
  return mounted() ? write() : kj::READY_NOW;
}

kj::Promise<void> PlatformFactsFile::write() {
  if (!wanted.exist()) return kj::READY_NOW;
  return uv
      .blocking([path = kj::str(path), content = fileOf(wanted, platform)]() {
        writeIfChanged(path, content);
      })
      .catch_([this](kj::Exception&& e) {
        log::warn("cannot keep the facts of the platform for the next boot",
                  {{"file", path}, {"error", messageOf(e)}});
      });
}

}  // namespace talos::machined
