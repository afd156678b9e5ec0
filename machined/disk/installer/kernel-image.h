// The kernel of a system: on amd64 a bzImage (Linux: Documentation/arch/x86/boot.rst), on arm64 an
// Image with an EFI stub (Documentation/arch/arm64/booting.rst), compressed or not, whose size is
// in its sections (Microsoft: PE Format). Pure; the bytes are foreign.
#pragma once

#include <stdint.h>

#include "common/base/version.h"

namespace talos::install {

constexpr size_t kKernelHeadBytes = 4096;

// `head` is the first bytes of a file of this size. InvalidArgument if it is not a kernel for this
// architecture, or is smaller than its header says.
void checkKernel(kj::ArrayPtr<const kj::byte> head, uint64_t size,
                 kj::StringPtr arch = buildVersion().arch);

}  // namespace talos::install
