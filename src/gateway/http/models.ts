/** One list that both APIs' clients can read. */
export function modelList(model: string): unknown {
  return {
    object: 'list',
    data: [
      {
        id: model,
        object: 'model',
        type: 'model',
        display_name: model,
        created: 0,
        created_at: '1970-01-01T00:00:00Z',
        owned_by: 'rollpool',
      },
    ],
    has_more: false,
    first_id: model,
    last_id: model,
  };
}
