// The passphrase of a `nodeID` key: the text of the machine's UUID, then the partition's label, as
// in Talos. Pure.
//
// It is as secret as the UUID: a thief of the disk without the machine lacks it. A UUID that many
// machines share, or that says nothing, is refused, because it would protect nothing.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::machined {

constexpr size_t kUuidBytes = 16;

// Returns the system's UUID as it is in the table of SMBIOS (type 1, DSP0134 §7.2.1); nullptr if
// the table lacks it. The table comes from the firmware and may hold any bytes.
kj::Maybe<kj::Array<kj::byte>> systemUuidIn(kj::ArrayPtr<const kj::byte> table);

// Returns 36 characters in lower case. The first three fields are little-endian in the table,
// whatever the version of SMBIOS: other texts than Talos' would not open its volumes.
kj::String uuidText(kj::ArrayPtr<const kj::byte> uuid);

// Returns why the UUID protects nothing; nullptr if it protects: it is not the nil UUID, and no
// character makes up more than half of the text.
kj::Maybe<kj::String> weaknessOf(kj::StringPtr uuid);

// Throws FailedPrecondition with the weakness.
kj::Array<kj::byte> nodePassphrase(kj::StringPtr uuid, kj::StringPtr label);

}  // namespace talos::machined
