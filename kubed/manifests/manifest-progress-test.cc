#include "kubed/manifests/manifest-progress.h"

#include <gtest/gtest.h>

namespace talos::kubed {
namespace {

ManifestText text(kj::StringPtr id, uint64_t version) {
  return {id, "", true, version};
}
kj::String idsOf(const kj::Vector<ManifestText>& manifests) {
  return kj::strArray(KJ_MAP(one, manifests) { return one.id; }, " ");
}
CreatedManifests failing(kj::StringPtr id) {
  CreatedManifests result;
  result.failures.add(CreatedManifests::Failure{kj::str(id), kj::str("unknown kind")});
  return result;
}

// Catches: one manifest that is wrong and has all others looked at again and again.
TEST(ManifestProgress, CompletedManifestIsNotReadAgain) {
  ManifestProgress progress;
  ManifestText all[] = {text("a", 1), text("b", 1), text("c", 1)};
  EXPECT_EQ(idsOf(progress.due(all, 7, false)), "a b c"_kj);
  EXPECT_EQ(idsOf(progress.due(all, 7, false)), "a b c"_kj);  // the pass was rejected
  progress.note(all, failing("b"));
  EXPECT_EQ(progress.failure(), "manifest b: unknown kind"_kj);
  EXPECT_EQ(kj::strArray(progress.applied(all, true), " "), "a c"_kj);
  EXPECT_EQ(idsOf(progress.due(all, 7, false)), ""_kj);
  EXPECT_EQ(idsOf(progress.due(all, 7, true)), "b"_kj);
  all[2] = text("c", 2);
  auto due = progress.due(all, 7, false);
  EXPECT_EQ(idsOf(due), "c"_kj);
  progress.note(due, {});
  EXPECT_EQ(progress.failure(), "manifest b: unknown kind"_kj);
  due = progress.due(all, 7, true);
  progress.note(due, {});
  EXPECT_EQ(progress.failure(), ""_kj);
  EXPECT_EQ(idsOf(progress.due(all, 7, true)), ""_kj);
  EXPECT_EQ(idsOf(progress.due(all, 8, false)), "a b c"_kj);
}

// Catches: a failure that is still reported after its manifest was removed.
TEST(ManifestProgress, RemovedManifestIsForgotten) {
  ManifestProgress progress;
  ManifestText all[] = {text("a", 1), text("b", 1)};
  progress.note(progress.due(all, 1, false), failing("b"));
  EXPECT_EQ(idsOf(progress.due(kj::arrayPtr(all, 1), 1, false)), ""_kj);
  EXPECT_EQ(progress.failure(), ""_kj);
  EXPECT_EQ(kj::strArray(progress.applied(kj::arrayPtr(all, 1), true), " "), "a"_kj);
}

// Catches: a process that reports nothing as applied after a restart.
TEST(ManifestProgress, ManifestsAppliedBeforeARestartAreReported) {
  ManifestProgress progress;
  kj::Vector<kj::String> before;
  for (auto id : {"a", "b", "old"}) before.add(kj::str(id));
  progress.recall(kj::mv(before));
  EXPECT_EQ(kj::strArray(progress.applied(nullptr, false), " "), "a b old"_kj);
  ManifestText all[] = {text("a", 1), text("b", 1)};
  EXPECT_EQ(kj::strArray(progress.applied(all, true), " "), "a b"_kj);
  progress.note(progress.due(all, 1, false), failing("b"));
  EXPECT_EQ(kj::strArray(progress.applied(all, true), " "), "a"_kj);
}

}  // namespace
}  // namespace talos::kubed
