#include "logd/destination-set.h"

#include <set>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/wire/store-adapter.h"

namespace talos::logd {
namespace {

constexpr auto kReportPause = 2 * kj::SECONDS;
constexpr size_t kFolderName = 16;

// Replaces the slashes of endpoints.
kj::String folderName(kj::StringPtr endpoint) {
  Sha256 hash;
  hash.add(endpoint.asBytes());
  return kj::heapString(hash.hex().slice(0, kFolderName));
}

using Headers = capnp::List<config::Tag>::Reader;

// Returns nullptr while the headers differ from those that the destination names: the two records
// arrive separately.
kj::Maybe<kj::Array<OtlpHeader>> headersOf(rpc::LogDestinationSpec::Reader spec, Headers headers) {
  auto names = spec.getHeaders();
  if (names.size() != headers.size()) return nullptr;
  auto all = kj::heapArrayBuilder<OtlpHeader>(names.size());
  for (auto i : kj::indices(names)) {
    if (names[i] != headers[i].getKey()) return nullptr;
    all.add(OtlpHeader{kj::str(names[i]), pki::Pem(kj::str(headers[i].getValue()))});
  }
  return all.finish();
}

DestinationSettings settingsOf(kj::StringPtr endpoint, rpc::LogDestinationSpec::Reader spec,
                               kj::Array<OtlpHeader> headers) {
  DestinationSettings settings;
  settings.endpoint = kj::str(endpoint);
  settings.format = spec.getFormat();
  settings.streams = kj::heapArray<config::LogStream>(spec.getStreams().size());
  for (auto i : kj::indices(settings.streams)) settings.streams[i] = spec.getStreams()[i];
  kj::Vector<LineTag> tags;
  for (auto tag : spec.getTags()) tags.add(LineTag{kj::str(tag.getKey()), kj::str(tag.getValue())});
  settings.tags = tags.releaseAsArray();
  settings.authorities = kj::str(spec.getAuthorities());
  settings.bufferBytes = spec.getBufferBytes();
  settings.compression = spec.getCompression();
  settings.headers = kj::mv(headers);
  return settings;
}

}  // namespace

DestinationSet::DestinationSet(Dependencies d) : deps(kj::mv(d)) {
  specs = deps.store.watch<rpc::LogDestinationSpec>([this]() { changed.raise(); });
  credentials = deps.store.watch<rpc::LogDestinationCredentialsSpec>([this]() { changed.raise(); });
  hostnames = deps.store.watch<rpc::HostnameSpecSpec>([this]() { changed.raise(); });
  statuses = deps.store.watch<rpc::MachineStatusSpec>([this]() { changed.raise(); });
}

kj::Promise<void> DestinationSet::run() {
  return follow().exclusiveJoin(report());
}

kj::Promise<void> DestinationSet::follow() {
  for (;;) {
    auto next = changed.next();
    for (auto name : hostnames) hostname = kj::str(name.getHostname());
    if (specs.synced() && credentials.synced()) {
      std::set<std::string> wanted;
      for (auto spec : specs) {
        wanted.insert(spec.id().cStr());
        update(spec);
      }
      std::erase_if(destinations, [&](auto& entry) { return wanted.count(entry.first) == 0; });
      removeOthers();
    }
    for (auto status : statuses) {
      for (auto& entry : destinations) {
        entry.second->setMachineStatus({status.version(), status.metadata().getUpdated()}, status);
      }
    }
    co_await next;
  }
}

void DestinationSet::update(ResourceOf<rpc::LogDestinationSpec> spec) {
  kj::StringPtr endpoint = spec.id();
  Headers given;
  KJ_IF_MAYBE (found, credentials.find(endpoint)) given = found->getHeaders();
  KJ_IF_MAYBE (headers, headersOf(spec, given)) {
    auto settings = settingsOf(endpoint, spec, kj::mv(*headers));
    auto& destination = destinations[endpoint.cStr()];
    if (destination.get() != nullptr && destination->settings() == settings) return;
    destination = nullptr;  // The destination uses the folder.
    auto connection = deps.connector(settings);
    destination = kj::heap<Destination>(
        DestinationDependencies{.timer = deps.timer,
                                .clock = deps.clock,
                                .random = deps.random,
                                .disk = deps.disk,
                                .machined = deps.machined,
                                .hostname = hostname},
        kj::mv(settings), kj::str(deps.state, "/", folderName(endpoint)), kj::mv(connection));
  }
}

// Keeps the folder of a destination that waits for its credentials: it may already contain lines.
void DestinationSet::removeOthers() {
  std::set<std::string> kept;
  for (auto spec : specs) kept.insert(folderName(spec.id()).cStr());
  deps.disk.add([kept = kj::mv(kept), state = kj::str(deps.state)]() {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   for (auto& name : namesIn(state)) {
                     if (kept.count(name.cStr()) == 0) removeTree(kj::str(state, "/", name));
                   }
                 })) {
      log::error("cannot remove the lines of a former destination", {{"error", messageOf(*e)}});
    }
  });
}

kj::Promise<void> DestinationSet::report() {
  for (;;) {
    if (specs.synced()) {
      StoreClient::Wanted records;
      for (auto& entry : destinations) {
        addRecord<rpc::LogDestinationStatusSpec>(
            records, kj::str(entry.first.c_str()),
            [status = entry.second->status()](rpc::LogDestinationStatusSpec::Builder out) {
              out.setConnected(status.connected);
              out.setSentLines(status.sentLines);
              out.setWaitingBytes(status.waitingBytes);
              out.setDroppedLines(status.droppedLines);
              out.setMissedBytes(status.missedBytes);
              out.setMissedRecords(status.missedRecords);
              out.setDamagedBytes(status.damagedBytes);
              out.setRefusedLines(status.refusedLines);
              out.setRepeatedLines(status.repeatedLines);
              out.setSince(dateText(status.since));
              out.setLastError(status.lastError);
            });
      }
      auto error = co_await errorOf(
          [&]() { return deps.store.replaceAll<rpc::LogDestinationStatusSpec>(kj::mv(records)); });
      KJ_IF_MAYBE (e, error) log::error("cannot publish the status", {{"error", *e}});
    }
    co_await deps.timer.afterDelay(kReportPause);
  }
}

}  // namespace talos::logd
