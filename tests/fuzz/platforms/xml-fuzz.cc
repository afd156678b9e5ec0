// link: machined-confined-parser
// XML of platforms: ovf-env.xml and the goal state of Azure, the OVF environment of VMware. The
// results are read again, as a machine config and as a report.
#include <kj/debug.h>
#include <string.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser/user-data.h"
#include "machined/platforms/readers/file-platforms.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;

// Checks that the report contains only identifiers of the goal state.
void checkReport(kj::StringPtr report) {
  KJ_ASSERT(report.size() <= machined::kMostReadyReport);
  size_t elements = 0;
  for (char c : report) {
    elements += c == '<' ? 1 : 0;
    KJ_ASSERT(c >= ' ', "a control character in a report");
  }
  KJ_ASSERT(elements == 19, "an element of the goal state in a report", elements);
}

}  // namespace

FUZZ_TARGET(xml) {
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  kj::Array<char> config;
  (void)kj::runCatchingExceptions([&] {
    config = parse::readUserData(platforms::Encoding::kOvfEnvironment, kj::heapArray(text));
  });
  KJ_ASSERT(config.size() <= machined::kMostConfigBytes);
  kj::String report;
  (void)kj::runCatchingExceptions([&] { report = platforms::azureReadyReport(text); });
  if (report.size() > 0) checkReport(report);
  auto property = [&](kj::ArrayPtr<const kj::StringPtr> keys) {
    kj::Array<char> value;
    (void)kj::runCatchingExceptions(
        [&] { value = parse::readOvfProperties(keys, platforms::kOvfFile, text); });
    KJ_ASSERT(value.size() <= machined::kMostConfigBytes);
  };
  property(platforms::kConfigProperties);
  property(platforms::kMetadataProperties);
  return 0;
}
