#include "machined/upgrade/install-image.h"

#include "common/base/error.h"
#include "common/base/url-secrets.h"

namespace talos::machined {
namespace {

using Stage = UpgradeRecord::Stage;

constexpr kj::StringPtr kWanted = "wanted "_kj, kRefused = "refused "_kj;

// Another try may go better. What is not known to be final is one of these: it costs a download.
bool mayPass(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kNotFound:
    case ErrorKind::kPermissionDenied:
    case ErrorKind::kFailedPrecondition:
    case ErrorKind::kUnimplemented:
      return false;
    default:
      return true;
  }
}

}  // namespace

kj::Maybe<InstallWish> decodeWish(kj::StringPtr text) {
  KJ_IF_MAYBE (end, text.findFirst('\n')) {
    for (auto word : {kWanted, kRefused}) {
      if (!text.startsWith(word) || *end <= word.size()) continue;
      return InstallWish{kj::str(text.slice(word.size(), *end)), word == kRefused};
    }
  }
  return nullptr;
}

kj::String encodeWish(const InstallWish& wish) {
  return kj::str(wish.refused ? kRefused : kWanted, wish.image, "\n");
}

kj::String nameInRecord(kj::StringPtr image) {
  auto parts = splitImageName(image);
  kj::Maybe<ArchiveUrl> url;
  // One that is not valid is called what it is called in the config.
  (void)kj::runCatchingExceptions([&] { url = archiveUrl(parts.name, parts.query); });
  KJ_IF_MAYBE (u, url) return kj::mv(u->place.shown);
  return kj::mv(parts.name);
}

void InstallImage::taskFailed(kj::Exception&& e) {
  deps.tell(kj::str("warning: machine.install.image: ", messageOf(e)));
}

kj::Promise<void> InstallImage::leave() {
  kj::Maybe<InstallWish> left;
  KJ_IF_MAYBE (image, deps.configured()) {
    if (!isOwn(*image)) {
      deps.tell(kj::str("machine.install.image: what is installed is the system that runs (",
                        deps.own, "); after its first boot the node upgrades itself to ",
                        nameInRecord(*image)));
      left = InstallWish{kj::mv(*image)};
    }
  }
  return deps.save(kj::mv(left));
}

kj::Promise<void> InstallImage::resume() {
  if (resumed) co_return;
  resumed = true;
  co_await deps.load().then([this](kj::Maybe<InstallWish> found) { wish = kj::mv(found); },
                            [this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  co_await deps.upgrader.resume(wish.map([](InstallWish& w) { return nameInRecord(w.image); }));
  if (wish != nullptr) tasks.add(follow());
}

void InstallImage::changed() {
  KJ_IF_MAYBE (w, waker) (*w)->fulfill();
}

// Who waits already looks once more.
kj::Promise<void> InstallImage::nextChange() {
  changed();
  auto paf = kj::newPromiseAndFulfiller<void>();
  waker = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

// A STATE that cannot be written to is no reason to give up what is known.
kj::Promise<void> InstallImage::keep() {
  return deps
      .save(wish.map([](InstallWish& w) { return InstallWish{kj::str(w.image), w.refused}; }))
      .catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
}

kj::Promise<void> InstallImage::drop() {
  wish = nullptr;
  deps.upgrader.await(nullptr);
  return keep();
}

kj::Promise<void> InstallImage::follow() {
  while (wish != nullptr) {
    auto change = nextChange();  // from before it looks
    KJ_IF_MAYBE (pause, co_await look()) {
      change = deps.timer.afterDelay(*pause).exclusiveJoin(kj::mv(change));
    }
    if (wish != nullptr) co_await change;
  }
}

// How long to wait for the next try; none: there is nothing to try until something changes.
kj::Promise<kj::Maybe<kj::Duration>> InstallImage::look() {
  if (co_await settled() || deps.upgrader.isUnderWay()) co_return nullptr;
  KJ_IF_MAYBE (configured, deps.configured()) {
    if (co_await compare(*configured) == false) co_return nullptr;
    auto now = deps.timer.now();
    if (now < nextTry) co_return nextTry - now;
    if (deps.upgrader.hasSlots()) co_return co_await attempt();
    deps.upgrader.await(Upgrader::Awaited{
        nameInRecord(*configured),
        kj::str("this node was not started from its disk, so there is no slot to upgrade")});
  }
  co_return nullptr;
}

// Another system was confirmed, or somebody else's upgrade is under way.
kj::Promise<bool> InstallImage::settled() {
  KJ_IF_MAYBE (r, deps.upgrader.newest()) {
    auto name = nameInRecord(KJ_ASSERT_NONNULL(wish).image);
    if (r->stage == Stage::DONE || (!r->isOver() && r->image != name)) {
      co_await drop();
      co_return true;
    }
  }
  co_return false;
}

// Whether what the config names is to be tried.
kj::Promise<bool> InstallImage::compare(kj::StringPtr configured) {
  auto& w = KJ_ASSERT_NONNULL(wish);
  if (isOwn(configured)) {
    co_await drop();
    co_return false;
  }
  if (configured != w.image) {
    w = InstallWish{kj::str(configured)};
    pauses.reset();
    nextTry = deps.timer.now();
    co_await keep();
  } else KJ_IF_MAYBE (r, deps.upgrader.newest()) {
    bool failed = r->stage == Stage::FAILED && r->image == nameInRecord(w.image);
    if (failed && !w.refused) {
      w.refused = true;
      co_await keep();
    }
  }
  co_return !KJ_ASSERT_NONNULL(wish).refused;
}

kj::Promise<kj::Maybe<kj::Duration>> InstallImage::attempt() {
  auto image = kj::str(KJ_ASSERT_NONNULL(wish).image);
  auto parts = splitImageName(image);
  kj::Maybe<kj::Exception> wrong;
  UpgradeWish asked{.image = kj::mv(parts.name), .preserve = true, .query = kj::mv(parts.query)};
  co_await deps.upgrader.upgrade(kj::mv(asked))
      .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); })
      .exclusiveJoin(untilAnotherIsNamed(kj::str(image)));
  KJ_IF_MAYBE (e, wrong) {
    if (!mayPass(kindOf(*e))) {
      KJ_ASSERT_NONNULL(wish).refused = true;
      co_await deps.upgrader.refuse(nameInRecord(image), messageOf(*e))
          .catch_([this](kj::Exception&& f) { taskFailed(kj::mv(f)); });
      co_await keep();
      co_return nullptr;
    }
    auto pause = pauses.next(deps.chance());
    nextTry = deps.timer.now() + pause;
    deps.upgrader.await(
        Upgrader::Awaited{nameInRecord(image), kj::str(messageOf(*e), "; retrying")});
    co_return pause;
  }
  co_return 0 * kj::SECONDS;  // it is under way, or another one is to be tried
}

// A fetch takes up to 20 minutes.
kj::Promise<void> InstallImage::untilAnotherIsNamed(kj::String image) {
  for (;;) {
    auto change = nextChange();
    KJ_IF_MAYBE (now, deps.configured()) {
      if (*now != image) co_return;
    }
    co_await change;
  }
}

}  // namespace talos::machined
