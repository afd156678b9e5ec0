#include "machined/api/audit-line.h"

#include "common/base/date.h"
#include "common/base/log.h"
#include "common/wire/request-id.h"

namespace talos::machined {
namespace {

// A line of a log has at most 8 KiB, and an escaped character takes four bytes: 4 * 2000 together.
constexpr size_t kMostShownRoles = 4, kLongestRole = 32;
constexpr size_t kLongestClient = 128, kLongestAddress = 64;
constexpr size_t kLongestCall = 1027, kLongestOutcome = 515;  // apid's limits

kj::String cut(kj::StringPtr text, size_t most) {
  if (text.size() <= most) return kj::str(text);
  return kj::str(text.slice(0, most), "...");
}

kj::String rolesOf(rpc::AuditRecord::Reader record) {
  kj::Vector<kj::String> roles;
  for (auto role : record.getRoles()) {
    if (roles.size() == kMostShownRoles) break;
    roles.add(cut(role, kLongestRole));
  }
  return kj::strArray(roles, ",");
}

kj::String duration(uint64_t us) {
  return kj::str(us / 1000, '.', us / 100 % 10, "ms");
}

}  // namespace

kj::String auditLine(rpc::AuditRecord::Reader record, kj::Date now) {
  auto client = cut(record.getClient(), kLongestClient),
       address = cut(record.getAddress(), kLongestAddress);
  auto who =
      log::formatFields({{"time", dateTextMs(now)}, {"client", client}, {"address", address}});
  if (record.getVia().size() > 0) {
    who = kj::str(who, ' ', log::formatFields({{"via", cut(record.getVia(), kLongestAddress)}}));
  }
  kj::StringPtr request = record.getRequest();
  if (isRequestId(request)) {
    who = kj::str(who, ' ', log::formatFields({{"request", request}}));
  }
  return kj::str(who, ' ',
                 log::formatFields({{"roles", rolesOf(record)},
                                    {"call", cut(record.getCall(), kLongestCall)},
                                    {"outcome", cut(record.getOutcome(), kLongestOutcome)},
                                    {"duration", duration(record.getDurationUs())}}),
                 '\n');
}

}  // namespace talos::machined
