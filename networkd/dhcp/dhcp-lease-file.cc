#include "networkd/dhcp/dhcp-lease-file.h"

#include <zlib.h>

namespace talos::networkd::dhcp {

kj::Array<kj::byte> encode(kj::StringPtr magic, const LeaseFile& content) {
  uint64_t since = (content.obtained - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
  Writer out;
  out.bytes(magic.asBytes()).u32(since >> 32).u32(static_cast<uint32_t>(since));
  out.u32(content.message.size()).bytes(content.message);
  auto sum = crc32(0, out.written().begin(), out.size());
  out.u32(static_cast<uint32_t>(sum));
  return out.finish();
}

kj::Maybe<LeaseFile> decodeLeaseFile(kj::StringPtr magic, Bytes file, kj::TimePoint now) {
  Reader in(file);
  auto begin = in.take(magic.size());
  uint64_t since = in.u32();
  since = since << 32 | in.u32();
  auto message = in.take(in.u32());
  auto covered = file.size() - in.left();
  auto sum = in.u32();
  bool whole = !in.bad() && in.left() == 0 && begin == magic.asBytes() &&
               sum == crc32(0, file.begin(), covered);
  if (!whole || since > static_cast<uint64_t>(INT64_MAX)) return nullptr;
  auto obtained = kj::origin<kj::TimePoint>() + static_cast<int64_t>(since) * kj::NANOSECONDS;
  if (obtained > now) return nullptr;
  return LeaseFile{obtained, message};
}

}  // namespace talos::networkd::dhcp
