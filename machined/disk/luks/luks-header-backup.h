// The backup of a LUKS2 header in a file: what the header was when the node wrote it last, and so
// what it has to be when the volume is opened.
//
// The file has the header up to the data, with zeros where it has neither metadata nor a key, which
// take no room; behind it is the SHA-256 of that. It is replaced whole. While `<file>.changing` is
// there, the header may be another one than the backup: markHeader() makes that file, on the disk,
// before a change of the header begins, and the last backupHeader() after the change removes it. So
// after a cut at any write a header that the node itself has changed is never taken for one that
// somebody else has changed.
//
// restoreHeader() writes nothing unless it is certain that the backup is that of this volume: its
// digest is right; what is there has no UUID, or the same one; a key opens the backup; and with
// that the data begins with an XFS. The header can be read only when all of it is there; after a
// cut it is done again. What was replaced is kept as `<file>.replaced` meanwhile, as
// `<file>.refused` afterwards: that of the last time.
#pragma once

#include "machined/disk/luks/luks-device.h"

namespace talos::luks {

// Of the device's header with the backup. kNone: there is no backup; kDamaged: there is one that is
// not whole, so nothing can be said. It ends a restoration that a cut has left without its end.
enum class Comparison { kNone, kSame, kOther, kChanging, kDamaged };
Comparison compareHeader(Device& device, kj::StringPtr file);

void markHeader(kj::StringPtr file);
// `last`: the change has ended, and with it a restoration that was cut off.
void backupHeader(Device& device, kj::StringPtr file, bool last);
// FailedPrecondition as said above, and for a device that is empty.
void restoreHeader(Device& device, kj::StringPtr file, kj::ArrayPtr<const Key> keys);
// The volume is gone. Absent is fine.
void forgetHeader(kj::StringPtr file);

}  // namespace talos::luks
