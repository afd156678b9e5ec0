// The passphrase of a `nodeID` key: the text of the machine's UUID, then the partition's label, as
// in Talos. Pure.
//
// It is no more secret than the UUID is: whoever has the disk without the machine lacks it. A UUID
// that many machines have, or that says nothing, is refused, since it would keep out nobody.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::machined {

constexpr size_t kUuidBytes = 16;

// The system's UUID, as it stands in the table of SMBIOS (type 1, DSP0134 §7.2.1), which is
// firmware's and may say anything; none when it has none.
kj::Maybe<kj::Array<kj::byte>> systemUuidIn(kj::ArrayPtr<const kj::byte> table);

// 36 characters, lower case. The first three fields are little-endian there, whatever the version
// of SMBIOS: others than the original's texts would not open its volumes.
kj::String uuidText(kj::ArrayPtr<const kj::byte> uuid);

// Why it protects nothing; none when it does. It is not the nil UUID, and no character is more than
// half of the text.
kj::Maybe<kj::String> weaknessOf(kj::StringPtr uuid);

// Throws FailedPrecondition with the weakness.
kj::Array<kj::byte> nodePassphrase(kj::StringPtr uuid, kj::StringPtr label);

}  // namespace talos::machined
