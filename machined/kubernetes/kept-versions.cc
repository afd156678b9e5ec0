#include "machined/kubernetes/kept-versions.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/base/sha256.h"

namespace talos::machined {
namespace {

constexpr size_t kMostVersionsFile = 64u << 10;

kj::String digestOf(kj::ArrayPtr<const kj::byte> content) {
  Sha256 hash;
  hash.add(content);
  return hash.hex();
}

// Reads a line; a later release may have more fields after these.
bool readLine(kj::StringPtr line, KeptVersionMap& into) {
  kj::Vector<kj::String> fields;
  for (size_t begin = 0, i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] != ' ') continue;
    fields.add(kj::heapString(line.slice(begin, i)));
    begin = i + 1;
  }
  if (fields.size() < 3 || fields[0].size() == 0) return false;
  auto version = fields[1].tryParseAs<uint64_t>().orDefault(0);
  if (version == 0 || fields[2].size() != 2 * Sha256::kBytes) return false;
  into.upsert(kj::mv(fields[0]), KeptVersion{version, kj::mv(fields[2])});
  return true;
}

}  // namespace

KeptVersionMap readKeptVersions(kj::StringPtr text, kj::Vector<kj::String>& unknown) {
  KeptVersionMap result;
  for (auto& line : linesOf(text)) {
    if (!readLine(line, result)) unknown.add(kj::mv(line));
  }
  return result;
}

kj::String writeKeptVersions(const KeptVersionMap& versions) {
  return kj::strArray(
      KJ_MAP(entry, versions) {
        return kj::str(entry.key, " ", entry.value.version, " ", entry.value.digest, "\n");
      },
      "");
}

kj::Promise<void> KeptVersions::load() {
  struct Read : public kj::Refcounted {
    KeptVersionMap found;
    kj::Vector<kj::String> unknown;
  };
  auto read = kj::refcounted<Read>();
  auto failure = co_await deps
                     .blocking([file = deps.file, read = kj::addRef(*read)]() mutable {
                       KJ_IF_MAYBE (text, tryReadFile(file, kMostVersionsFile)) {
                         read->found = readKeptVersions(*text, read->unknown);
                       }
                     })
                     .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                           [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    log::error("cannot read the stored versions; counting restarts",
               {{"file", deps.file}, {"error", messageOf(*e)}});
  }
  for (auto& line : read->unknown) {
    log::warn("a stored version is damaged or of a later release; ignored",
              {{"file", deps.file}, {"line", line}});
  }
  for (auto& entry : read->found) {
    auto& kept = versions.findOrCreate(
        entry.key, [&]() -> KeptVersionMap::Entry { return {kj::str(entry.key), KeptVersion{}}; });
    // A number counted before STATE was mounted continues above both.
    bool same = kept.version == 0 || kept.digest == entry.value.digest;
    if (kept.version == 0) kept.digest = kj::mv(entry.value.digest);
    kept.version = kj::max(kept.version, entry.value.version + (same ? 0 : 1));
  }
  loaded = true;
}

kj::Promise<void> KeptVersions::save() {
  return deps.blocking([file = deps.file, text = writeKeptVersions(versions)]() {
    writeFileAtomically(file, text, 0600);
  });
}

kj::Promise<void> KeptVersions::count(kj::StringPtr name, kj::String digest) {
  if (!loaded && deps.isMounted()) co_await load();
  auto& kept = versions.findOrCreate(
      name, [&]() -> KeptVersionMap::Entry { return {kj::str(name), KeptVersion{}}; });
  if (kept.digest == digest) co_return;
  KeptVersion before{kept.version, kj::mv(kept.digest)};
  kept = {before.version + 1, kj::mv(digest)};
  if (!deps.isMounted()) co_return;
  kj::Maybe<kj::Exception> failure;
  co_await save().catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    kept = kj::mv(before);
    kj::throwFatalException(kj::mv(*e));
  }
}

// Runs calls in order: each sees the counts of the previous one.
kj::Promise<uint64_t> KeptVersions::of(kj::StringPtr name, kj::ArrayPtr<const kj::byte> content) {
  auto counted = last.addBranch()
                     .then([this, name = kj::str(name), digest = digestOf(content)]() mutable {
                       auto counting = count(name, kj::mv(digest));
                       return counting.attach(kj::mv(name));
                     })
                     .fork();
  last = counted.addBranch().catch_([](kj::Exception&&) {}).fork();
  return counted.addBranch().then(
      [this, name = kj::str(name)]() { return KJ_ASSERT_NONNULL(versions.find(name)).version; });
}

}  // namespace talos::machined
