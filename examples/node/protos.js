// The API, from its proto files.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

export const repository = fileURLToPath(new URL('../../', import.meta.url));

// They import protovalidate's, which `make third_party` copies into the repository.
const definitions = protoLoader.loadSync(
  ['holdfast/v1/inventory_service.proto', 'holdfast/v1/admin_service.proto', 'errors.proto'],
  {
    includeDirs: ['proto', 'third_party/protovalidate', 'examples'].map((folder) => join(repository, folder)),
    longs: Number, // no number of this API comes near 2^53
    enums: String,
    defaults: true,
  },
);

export const { InventoryService, AdminService } = grpc.loadPackageDefinition(definitions).holdfast.v1;

// A message's bytes from an object, and back.
export const messages = (name) => definitions[`google.rpc.${name}`];
