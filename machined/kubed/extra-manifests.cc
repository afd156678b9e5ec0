#include "machined/kubed/extra-manifests.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/url-secrets.h"

namespace talos::kubed {

kj::Promise<void> ExtraManifests::run() {
  for (;;) {
    auto change = world.changed.next();
    auto wanted = entries();
    kj::Vector<kj::String> failures;
    auto fetches = KJ_MAP(entry, wanted) {
      return fetch(entry).then([&](kj::Maybe<kj::String>&& failed) {
        KJ_IF_MAYBE (why, failed) failures.add(kj::mv(*why));
        return publishNext(wanted);
      });
    };
    bool published = true;
    auto all = fetches.size() > 0 ? kj::joinPromises(kj::mv(fetches)) : publishNext(wanted);
    co_await all.catch_([&](kj::Exception&& e) {
      published = false;
      log::warn("cannot publish the manifests; retrying", {{"error", messageOf(e)}});
    });
    auto now = kj::strArray(failures, "; ");
    if (now != problems) {
      for (auto& failure : failures) log::error(failure);
      problems = kj::mv(now);
      world.changed.raise();  // whoever tells it
    }
    if (failures.empty() && published) {
      backoff.reset();
      co_await change;
    } else {
      co_await world.timer.afterDelay(backoff.next(world.random()));
    }
  }
}

// One after the other.
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
  KJ_IF_MAYBE (config, world.board.extraManifests()) {
    if (!config->isExtraManifests()) return all;
    for (auto given : config->getExtraManifests().getExtraManifests()) {
      Entry entry;
      entry.url = kj::str(given.getUrl());
      entry.id = kj::str(given.getPriority(), "-", withoutUrlPasswords(given.getUrl()));
      entry.contents = kj::str(given.getContents());
      kj::Vector<kj::String> state;
      state.add(kj::str(entry.url));
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
  auto shown = kj::str(withoutUrlPasswords(entry.url));
  try {
    kj::String objects;
    if (entry.contents.size() > 0) {
      objects = readInlineManifest(entry.url, entry.contents);
    } else {
      auto source = readSource(entry.url);
      shown = kj::str(source.shown);
      objects = co_await fetchManifest(edges, kj::mv(source), entry.headers, authorities);
    }
    fetched.upsert(kj::str(entry.id), Fetched{kj::str(entry.state), kj::mv(objects)},
                   [](Fetched& old, Fetched&& fresh) { old = kj::mv(fresh); });
    log::info("read the manifest", {{"url", shown}});
  } catch (...) {
    auto e = kj::getCaughtExceptionAsKj();
    failure = kj::str("cannot read the manifest ", shown, ": ", messageOf(e));
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
      for (auto& there : world.board.manifests()) {
        if (there.id == entry.id) add(there.id, there.objects);
      }
    }
  }
  return world.store.replaceAll<rpc::ManifestSpec>(kj::mv(records)).catch_([](kj::Exception&& e) {
    log::warn("cannot publish the manifests; retrying", {{"error", messageOf(e)}});
  });
}

}  // namespace talos::kubed
