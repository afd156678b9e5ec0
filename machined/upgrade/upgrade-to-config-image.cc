#include "machined/upgrade/upgrade-to-config-image.h"

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/url-secrets.h"

namespace talos::machined {
namespace {

using Stage = UpgradeRecord::Stage;

constexpr kj::StringPtr kWanted = "wanted "_kj, kRefused = "refused "_kj;
// A watchdog that resets the machine in each write, and a kernel that panics there, look like power
// cuts to the next system, and would repeat for ever.
constexpr unsigned kMostCuts = 5;

// Returns true if a retry may succeed. An error that is not known to be final may pass: a retry
// costs a download.
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

// Reads the earlier attempts; without the line none are known.
void readTries(kj::StringPtr line, PendingImage& pending) {
  KJ_IF_MAYBE (blank, line.findFirst(' ')) {
    auto known = kj::str(line.slice(0, *blank)).tryParseAs<int64_t>();
    pending.known = kj::UNIX_EPOCH + known.orDefault(0) * kj::NANOSECONDS;
    pending.cuts = line.slice(*blank + 1).tryParseAs<unsigned>().orDefault(0);
  }
}

}  // namespace

PendingImage PendingImage::clone() const {
  return {kj::str(image), refused, known, cuts};
}

kj::Maybe<PendingImage> decodePendingImage(kj::StringPtr text) {
  KJ_IF_MAYBE (end, text.findFirst('\n')) {
    for (auto state : {kWanted, kRefused}) {
      if (!text.startsWith(state) || *end <= state.size()) continue;
      PendingImage pending{kj::str(text.slice(state.size(), *end)), state == kRefused};
      readTries(firstLine(text.slice(*end + 1)), pending);
      return kj::mv(pending);
    }
  }
  return nullptr;
}

kj::String encodePendingImage(const PendingImage& pending) {
  auto known = (pending.known - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  return kj::str(pending.refused ? kRefused : kWanted, pending.image, "\n", known, " ",
                 pending.cuts, "\n");
}

kj::String nameInRecord(kj::StringPtr image) {
  auto parts = splitImageName(image);
  kj::Maybe<ArchiveUrl> url;
  // An invalid URL is called as in the config.
  (void)kj::runCatchingExceptions([&] { url = archiveUrl(parts.name, parts.query); });
  KJ_IF_MAYBE (u, url) return kj::mv(u->place.shown);
  return kj::mv(parts.name);
}

void InstallImage::taskFailed(kj::Exception&& e) {
  deps.node.log(kj::str("warning: machine.install.image: ", messageOf(e)));
}

kj::Promise<void> InstallImage::leave() {
  kj::Maybe<PendingImage> left;
  KJ_IF_MAYBE (image, deps.node.configuredImage()) {
    if (!isOwn(*image)) {
      deps.node.log(kj::str("machine.install.image: installed the running system (", deps.own,
                            "); after its first boot the node upgrades itself to ",
                            nameInRecord(*image)));
      left = PendingImage{kj::mv(*image)};
    }
  }
  return deps.node.savePendingImage(kj::mv(left));
}

kj::Promise<void> InstallImage::resume() {
  if (resumed) co_return;
  resumed = true;
  co_await deps.node.loadPendingImage().then(
      [this](kj::Maybe<PendingImage> found) { pending = kj::mv(found); },
      [this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  Upgrader::BeginsAnew ask = KJ_BIND_METHOD(*this, beginsAnew);
  co_await deps.upgrader.resume(kj::mv(ask));
  if (pending != nullptr) tasks.add(follow());
}

void InstallImage::changed() {
  KJ_IF_MAYBE (w, waker) (*w)->fulfill();
}

bool InstallImage::acts(bool applied) {
  if (pending != nullptr) return true;
  KJ_IF_MAYBE (image, deps.node.configuredImage()) return applied && isOwn(*image);
  return false;
}

// Wakes a loop that already waits, so that it looks again.
kj::Promise<void> InstallImage::nextChange() {
  changed();
  auto paf = kj::newPromiseAndFulfiller<void>();
  waker = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

// A STATE that cannot be written is only reported; the pending image stays in memory.
kj::Promise<void> InstallImage::keep() {
  return deps.node.savePendingImage(pending.map([](PendingImage& w) { return w.clone(); }))
      .catch_([this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
}

kj::Promise<void> InstallImage::drop() {
  pending = nullptr;
  deps.upgrader.await(nullptr);
  return keep();
}

// Counts a write that a power cut seems to have interrupted. A counted record is found again if the
// next attempt ends before it has its own record.
kj::Promise<bool> InstallImage::beginsAnew(const UpgradeRecord& cut) {
  KJ_IF_MAYBE (w, pending) {
    if (w->refused || cut.image != nameInRecord(w->image)) co_return false;
    if (cut.began != w->known) {
      w->known = cut.began;
      w->refused = ++w->cuts == kMostCuts;
      co_await keep();
    }
    co_return !KJ_ASSERT_NONNULL(pending).refused;
  }
  co_return false;
}

kj::Promise<void> InstallImage::follow() {
  while (pending != nullptr) {
    auto change = nextChange();  // made before it looks
    KJ_IF_MAYBE (pause, co_await look()) {
      change = deps.timer.afterDelay(*pause).exclusiveJoin(kj::mv(change));
    }
    if (pending != nullptr) co_await change;
  }
}

// Returns the time until the next attempt; nullptr if there is nothing to try until something
// changes.
kj::Promise<kj::Maybe<kj::Duration>> InstallImage::look() {
  if (co_await settled() || deps.upgrader.isUnderWay()) co_return nullptr;
  KJ_IF_MAYBE (configured, deps.node.configuredImage()) {
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

// Returns true if another system was confirmed, or another upgrade is under way.
kj::Promise<bool> InstallImage::settled() {
  KJ_IF_MAYBE (r, deps.upgrader.newest()) {
    auto name = nameInRecord(KJ_ASSERT_NONNULL(pending).image);
    if (r->stage == Stage::DONE || (!r->isOver() && r->image != name)) {
      co_await drop();
      co_return true;
    }
  }
  co_return false;
}

// Returns true if the configured image must be tried.
kj::Promise<bool> InstallImage::compare(kj::StringPtr configured) {
  auto& w = KJ_ASSERT_NONNULL(pending);
  if (isOwn(configured)) {
    co_await drop();
    co_return false;
  }
  if (configured != w.image) {
    w = PendingImage{kj::str(configured)};
    // An earlier record does not concern the new image, even if it has the same name.
    KJ_IF_MAYBE (r, deps.upgrader.newest()) w.known = r->began;
    pauses.reset();
    nextTry = deps.timer.now();
    co_await keep();
  } else KJ_IF_MAYBE (r, deps.upgrader.newest()) {
    bool failed = r->stage == Stage::FAILED && r->image == nameInRecord(w.image);
    if (failed && r->began != w.known && !w.refused) {
      w.refused = true;
      deps.upgrader.await(nullptr);
      co_await keep();
    }
  }
  co_return !KJ_ASSERT_NONNULL(pending).refused;
}

kj::Promise<kj::Maybe<kj::Duration>> InstallImage::attempt() {
  auto image = kj::str(KJ_ASSERT_NONNULL(pending).image);
  auto parts = splitImageName(image);
  kj::Maybe<kj::Exception> wrong;
  UpgradeRequest asked{.image = kj::mv(parts.name), .preserve = true, .query = kj::mv(parts.query)};
  co_await deps.upgrader.upgradeByConfig(kj::mv(asked))
      .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); })
      .exclusiveJoin(whenAnotherIsConfigured(kj::str(image)));
  KJ_IF_MAYBE (e, wrong) {
    // An administrator's request meanwhile stops this one, and says nothing about the image.
    bool others = deps.upgrader.isUnderWay();
    if (!others && !mayPass(kindOf(*e))) {
      KJ_ASSERT_NONNULL(pending).refused = true;
      co_await deps.upgrader.refuse(nameInRecord(image), messageOf(*e))
          .catch_([this](kj::Exception&& f) { taskFailed(kj::mv(f)); });
      co_await keep();
      co_return nullptr;
    }
    auto pause = pauses.next(deps.chance());
    nextTry = deps.timer.now() + pause;
    if (!others) {
      deps.upgrader.await(
          Upgrader::Awaited{nameInRecord(image), kj::str(messageOf(*e), "; retrying")});
    }
    co_return pause;
  }
  co_return 0 * kj::SECONDS;  // under way, or another image is to be tried
}

// Resolves when the config names another image, because a fetch takes up to 20 minutes.
kj::Promise<void> InstallImage::whenAnotherIsConfigured(kj::String image) {
  for (;;) {
    auto change = nextChange();
    KJ_IF_MAYBE (now, deps.node.configuredImage()) {
      if (*now != image) co_return;
    }
    co_await change;
  }
}

}  // namespace talos::machined
