#include "manifestd/extra-manifests.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"

namespace talos::manifestd {

namespace {

constexpr kj::StringPtr kConfigId = "extra-manifests"_kj, kStatusId = "manifests"_kj;

}  // namespace

ExtraManifests::ExtraManifests(ManifestdDependencies deps, DialDependencies dialing,
                               kj::Function<kj::String()> authorities)
    : deps(deps),
      dialing(dialing),
      authorities(kj::mv(authorities)),
      backoff(
          {.first = 1 * kj::SECONDS, .longest = 1 * kj::MINUTES, .chance0 = 0.75, .chance1 = 1.25}),
      configs(
          deps.store.watch<rpc::ControlPlaneConfigSpec>([this] { changed.raise(); }, kConfigId)),
      existing(deps.store.watch<rpc::ManifestSpec>([this] { changed.raise(); }, "",
                                                   kube::kExtraManifests)) {}

kj::Promise<void> ExtraManifests::run() {
  for (;;) {
    auto change = changed.next();
    if (!configs.synced() || !existing.synced()) {
      co_await change;
      continue;
    }
    auto wanted = entries();
    auto failures = co_await bring(wanted);
    auto now = kj::strArray(failures, "; ");
    if (now != problems) {
      for (auto& failure : failures) log::error(kj::str(failure, "; retrying"));
      problems = kj::mv(now);
      reported = false;
    }
    // Also reports the first time: the status may be that of an earlier process.
    if (!reported) reported = co_await report();
    if (failures.empty() && reported) {
      madeVerifier = nullptr;
      backoff.reset();
      co_await change;
    } else {
      auto pause = deps.timer.afterDelay(backoff.next(deps.random()));
      co_await otherEntries(wanted).exclusiveJoin(kj::mv(pause));
    }
  }
}

// The store belongs to machined; while machined is away, its client waits for it.
kj::Promise<bool> ExtraManifests::report() {
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  record->initRoot<rpc::ManifestStatusSpec>().setMessage(problems);
  StoreClient::Wanted wanted;
  if (problems.size() > 0) wanted.insert(kj::str(kStatusId), kj::mv(record));
  return deps.store.replaceAll<rpc::ManifestStatusSpec>(kj::mv(wanted), kube::kExtraManifests)
      .then([] { return true; },
            [](kj::Exception&& e) {
              log::error("cannot store the state of the manifests; retrying",
                         {{"error", messageOf(e)}});
              return false;
            });
}

kj::Promise<void> ExtraManifests::otherEntries(kj::ArrayPtr<const Entry> than) {
  for (;;) {
    auto change = changed.next();
    auto now = entries();
    bool same = now.size() == than.size();
    for (size_t i = 0; same && i < now.size(); ++i) {
      same = now[i].id == than[i].id && now[i].state == than[i].state;
    }
    if (!same) co_return;
    co_await change;
  }
}

kj::Promise<kj::Vector<kj::String>> ExtraManifests::bring(kj::ArrayPtr<const Entry> wanted) {
  kj::Vector<kj::String> failures;
  kj::Maybe<kj::String>
      unpublished;  // the newest error: each publication includes the earlier ones
  auto publishNow = [&]() {
    return publishNext(wanted).then([&]() { unpublished = nullptr; },
                                    [&](kj::Exception&& e) { unpublished = messageOf(e); });
  };
  auto fetches = KJ_MAP(entry, wanted) {
    return fetch(entry).then([&](kj::Maybe<kj::String>&& failed) {
      KJ_IF_MAYBE (error, failed) failures.add(kj::mv(*error));
      return publishNow();
    });
  };
  if (fetches.size() > 0) {
    co_await kj::joinPromises(kj::mv(fetches));
  } else {
    co_await publishNow();
  }
  KJ_IF_MAYBE (error, unpublished) failures.add(kj::str("cannot store the manifests: ", *error));
  co_return kj::mv(failures);
}

// Publishes one after the other.
kj::Promise<void> ExtraManifests::publishNext(kj::ArrayPtr<const Entry> wanted) {
  auto before = kj::mv(publishing);
  auto forked = before.catch_([](kj::Exception&&) {})
                    .then([this, wanted]() { return publish(wanted); })
                    .fork();
  publishing = forked.addBranch();
  return forked.addBranch();
}

kj::Vector<ExtraManifests::Entry> ExtraManifests::entries() const {
  kj::Vector<Entry> all;
  KJ_IF_MAYBE (config, configs.find(kConfigId)) {
    if (!config->isExtraManifests()) return all;
    for (auto given : config->getExtraManifests().getExtraManifests()) {
      Entry entry;
      entry.url = kj::str(given.getUrl());
      entry.isInline = given.hasContents();  // the contents may be empty
      entry.contents = kj::str(given.getContents());
      entry.id = entry.isInline ? kj::str(given.getPriority(), "-", entry.url)
                                : manifestId(given.getPriority(), entry.url);
      kj::Vector<kj::String> state;
      state.add(kj::str(entry.isInline ? "inline " : "", entry.url));
      state.add(kj::str(entry.contents));
      for (auto header : given.getExtraHeaders()) {
        entry.headers.add(kj::str(header.getKey()), kj::str(header.getValue()));
        state.add(kj::str(header.getKey(), ": ", header.getValue()));
      }
      entry.state = kj::strArray(state, "\n");
      all.add(kj::mv(entry));
    }
  }
  return all;
}

kj::Promise<kj::Maybe<kj::String>> ExtraManifests::fetch(const Entry& entry) {
  KJ_IF_MAYBE (known, fetched.find(entry.id)) {
    if (known->state == entry.state) co_return nullptr;
  }
  kj::Maybe<kj::String> failure;
  auto shown = entry.isInline ? kj::str(entry.url) : shownUrl(entry.url);
  try {
    kj::String objects;
    if (entry.isInline) {
      objects = readInlineManifest(entry.url, entry.contents);
    } else {
      auto source = readSource(entry.url);
      shown = kj::str(source.shown);
      kj::Function<TlsVerifier&()> verify = [this]() -> TlsVerifier& { return verifier(); };
      objects = co_await fetchManifest(dialing, kj::mv(source), entry.headers, verify);
    }
    fetched.upsert(kj::str(entry.id), Fetched{kj::str(entry.state), kj::mv(objects)},
                   [](Fetched& old, Fetched&& fresh) { old = kj::mv(fresh); });
    log::info("read the manifest", {{"url", shown}});
  } catch (...) {
    auto e = kj::getCaughtExceptionAsKj();
    failure = kj::str(messages::kCannotReadManifest, shown, ": ", messageOf(e));
  }
  co_return failure;
}

kj::Promise<void> ExtraManifests::publish(kj::ArrayPtr<const Entry> wanted) {
  StoreClient::Wanted records;
  auto add = [&](kj::StringPtr id, kj::StringPtr objects) {
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    record->initRoot<rpc::ManifestSpec>().setObjects(objects);
    records.upsert(kj::str(id), kj::mv(record), [](auto&, auto&&) {});
  };
  for (auto& entry : wanted) {
    KJ_IF_MAYBE (known, fetched.find(entry.id)) {
      add(entry.id, known->objects);
    } else {
      for (auto there : existing) {
        if (there.id() == entry.id) add(there.id(), there.getObjects());
      }
    }
  }
  return deps.store.replaceAll<rpc::ManifestSpec>(kj::mv(records), kube::kExtraManifests);
}

TlsVerifier& ExtraManifests::verifier() {
  KJ_IF_MAYBE (made, madeVerifier) return **made;
  return *madeVerifier.emplace(kj::heap<TlsVerifier>(authorities()));
}

}  // namespace talos::manifestd
