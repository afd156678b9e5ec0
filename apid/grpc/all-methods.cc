#include "apid/grpc/all-methods.h"

#include "apid/grpc/method-table.h"

namespace talos::grpcapi {

kj::Vector<Entry> allMethods(const ResourceMessages& messages) {
  auto all = tableEntries();
  addByNamespace(all);
  addCosi(all, messages);
  addResourceService(all, messages);
  addEvents(all);
  addFacts(all);
  addTransfers(all);
  addConfiguration(all);
  addBootstrap(all);
  addHealth(all);
  return all;
}

}  // namespace talos::grpcapi
